"""Validation of constructor parameters."""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np


def check_choice(name, value, choices, otherwise=""):
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(map(repr, choices)) + (otherwise and f", or give {otherwise}")
        raise ValueError(f"{name}={value!r} is not known; choose one of {known}.")
    return value


def check_positive(name, value, *, or_zero=False):
    """`value` as a float, if it is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} must be a number, not {type(value).__name__}.")
    low_enough = value < 0 if or_zero else value <= 0
    if not np.isfinite(value) or low_enough:
        bound = "0 or more" if or_zero else "greater than 0"
        raise ValueError(f"{name}={value!r} must be finite and {bound}.")
    return float(value)


# What alpha="loo" chooses from.
LOO_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-10, 7))


def is_word(value, word):
    """Whether a parameter that may be a number, an array or a word is this word."""
    return isinstance(value, str) and value == word


def parse_penalty(alpha):
    """Return the ridge penalty that `alpha` gives, "auto", or a tuple of penalties.

    One of several penalties is chosen by its leave-one-out error.
    """
    if is_word(alpha, "auto"):
        return "auto"
    if is_word(alpha, "loo"):
        return LOO_ALPHAS
    if isinstance(alpha, str):
        raise ValueError(f'alpha={alpha!r} is not known; give a number, several, "auto" or "loo".')
    if not np.iterable(alpha):
        return check_positive("alpha", alpha, or_zero=True)
    alphas = tuple(check_positive("alpha", each, or_zero=True) for each in alpha)
    if not alphas:
        raise ValueError(f'alpha={alpha!r} is empty; give a number, several, "auto" or "loo".')
    return alphas


def feature_weights(value, ways, n_features=None):
    """Return the numbers that `feature_weights` gives, in float64; None where it gives none.

    They are weights, or a linear map: a matrix with a row for each feature, of which there must be
    `n_features` if that is given. `ways` are the words that it may be.
    """
    if value is None:
        return None
    if isinstance(value, str):
        check_choice("feature_weights", value, ways, "None or an array")
        return None
    try:
        weights = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"feature_weights={value!r} must be None, one of {ways}, or numbers."
        ) from error
    is_map = weights.ndim == 2
    is_wrong = weights.ndim != 1 or (weights < 0).any()
    if not np.isfinite(weights).all() or (is_wrong and not is_map):
        raise ValueError(
            f"feature_weights={value!r} must be one finite number of 0 or more for each feature, "
            "or a matrix with a row of finite numbers for each."
        )
    if not weights.any():
        raise ValueError(f"feature_weights={value!r} leaves no feature a weight above 0.")
    if n_features is not None and len(weights) != n_features:
        raise ValueError(
            f"feature_weights has {len(weights)} {'rows' if is_map else 'numbers'}, and X has "
            f"{n_features} features; give one for each."
        )
    return weights


def check_positive_or_auto(name, value):
    """`value` if it is "auto", or a finite number above zero."""
    return value if is_word(value, "auto") else check_positive(name, value)


# Bits that an activation may have.
BITS = (8, 15)


def check_precision(value, may_be_auto):
    """`value`, if it is one of `BITS`, "float", or "auto" where it may be that."""
    words = ("float", "auto") if may_be_auto else ("float",)
    if isinstance(value, str):
        return check_choice("precision", value, words, "8 or 15 bits")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"precision={value!r} must be 8, 15, or one of {', '.join(words)}.")
    if value not in BITS:
        raise ValueError(f"precision={value!r} is no number of bits to round to; give 8 or 15.")
    return value


def check_flag(name, value):
    """`value`, if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} must be True or False.")
    return bool(value)


def check_level(name, value):
    """`value` as an int, if it is a flag or a whole number of at least 0."""
    message = f"{name}={value!r} must be a whole number of 0 or more, True or False."
    if not isinstance(value, (bool, np.bool_, Integral)):
        raise TypeError(message)
    if value < 0:
        raise ValueError(message)
    return int(value)


def check_count(name, value):
    """`value` as an int, if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} must be a whole number, not {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{name}={value!r} must be at least 1.")
    return int(value)


def check_whole_numbers(name, value, meaning, lengths):
    """`value` as a tuple of ints of at least 1, if it is a sequence of such."""
    wrong = f"{name}={value!r} must be {meaning}, in whole numbers of at least 1."
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(wrong)
    for number in value:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise TypeError(wrong)
    if len(value) not in lengths or min(value) < 1:
        raise ValueError(wrong)
    return tuple(map(int, value))
