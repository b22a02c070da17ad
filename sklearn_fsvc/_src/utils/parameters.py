"""Validation of constructor parameters.

Each function returns the valid value, or raises an error with the name, the value and the remedy:
TypeError for a wrong type, ValueError for a wrong value.
"""

from collections.abc import Collection, Iterable, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
import sklearn.utils

# The grid of alpha="loo".
LOO_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-10, 7))
# Numbers of bits to which activations may be quantised.
BITS = (8, 15)


def is_option(value: Any, word: str) -> bool:
    """Return whether a parameter, which may also be a number or an array, equals a string."""
    return isinstance(value, str) and value == word


def check_choice(name: str, value: Any, choices: Iterable[str], otherwise: str = "") -> str:
    """Return `value` if it is one of `choices`; `otherwise` describes other valid values."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(map(repr, choices)) + (otherwise and f", or pass {otherwise}")
        raise ValueError(f"{name}={value!r} is not known; choose one of {known}.")
    return value


def check_bool(name: str, value: Any) -> bool:
    """Return `value` if it is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}={value!r} must be True or False.")
    return bool(value)


def check_verbose(value: Any) -> int:
    """Return `verbose` as an int if it is a bool or a non-negative integer."""
    message = f"verbose={value!r} must be a non-negative integer, True or False."
    if not isinstance(value, (bool, np.bool_, Integral)):
        raise TypeError(message)
    if value < 0:
        raise ValueError(message)
    return int(value)


def check_random_state(random_state: Any) -> np.random.RandomState:
    """As scikit-learn's `check_random_state`, with an error that names the parameter."""
    try:
        return sklearn.utils.check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state={random_state!r} must be an integer from 0 to 2**32 - 1, a "
            "numpy.random.RandomState or None."
        ) from error


def make_generator(random_state: Any) -> np.random.Generator:
    """Return a generator for random choices of a search, which depends on the seed alone."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)


def check_integer(name: str, value: Any) -> None:
    """Raise TypeError if `value` is not an integer."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} must be an integer, not {type(value).__name__}.")


def check_positive_integer(name: str, value: Any) -> int:
    """Return `value` as an int if it is an integer of at least 1."""
    check_integer(name, value)
    if value < 1:
        raise ValueError(f"{name}={value!r} must be at least 1.")
    return int(value)


def check_output(output: Any, n_columns: int) -> None:
    """Raise ValueError if y has no column of this index, TypeError if it is no integer."""
    check_integer("output", output)
    if not 0 <= output < n_columns:
        raise ValueError(
            f"output={output!r}: y has {n_columns} column(s); pass the index of one, from 0."
        )


def check_positive_integers(
    name: str, value: Any, meaning: str, lengths: Collection[int]
) -> tuple[int, ...]:
    """Return `value` as a tuple if it is a sequence of positive integers of a valid length.

    `meaning` describes such a sequence, for messages.
    """
    message = f"{name}={value!r} must be {meaning}, as positive integers."
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise TypeError(message)
    for number in value:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise TypeError(message)
    if len(value) not in lengths or min(value) < 1:
        raise ValueError(message)
    return tuple(map(int, value))


def check_positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """Return `value` as a float if it is finite and positive, or 0 where that is valid too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} must be a number, not {type(value).__name__}.")
    is_too_small = value < 0 if or_zero else value <= 0
    if not isfinite(value) or is_too_small:
        bound = "0 or more" if or_zero else "greater than 0"
        raise ValueError(f"{name}={value!r} must be finite and {bound}.")
    return float(value)


def check_confidence_level(value: Any) -> float:
    """Return `confidence_level` as a float if it is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"confidence_level={value!r} must be a number between 0 and 1.")
    level = float(value)
    if not 0 < level < 1:
        raise ValueError(f"confidence_level={value!r} must be between 0 and 1.")
    return level


def check_positive_or_auto(name: str, value: Any) -> Any:
    """Return `value` if it is "auto", or finite and positive."""
    return value if is_option(value, "auto") else check_positive(name, value)


def check_precision(value: Any, may_be_auto: bool) -> Any:
    """Return `value` if it is one of `BITS`, "float", or "auto" where that is valid."""
    words = ("float", "auto") if may_be_auto else ("float",)
    if isinstance(value, str):
        return check_choice("precision", value, words, "8 or 15 bits")
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"precision={value!r} must be 8, 15, or one of {', '.join(words)}.")
    if value not in BITS:
        raise ValueError(f"precision={value!r} is not a supported number of bits; use 8 or 15.")
    return value


def parse_penalty(alpha: Any) -> float | str | tuple[float, ...]:
    """Return the ridge penalty that `alpha` gives, "auto", or a tuple of penalties.

    One of several penalties is chosen by its leave-one-out error.
    """
    if is_option(alpha, "auto"):
        return "auto"
    if is_option(alpha, "loo"):
        return LOO_ALPHAS
    if isinstance(alpha, str):
        raise ValueError(f'alpha={alpha!r} is not known; use a number, several, "auto" or "loo".')
    if not np.iterable(alpha):
        return check_positive("alpha", alpha, or_zero=True)
    alphas = tuple(check_positive("alpha", each, or_zero=True) for each in alpha)
    if not alphas:
        raise ValueError(f'alpha={alpha!r} is empty; use a number, several, "auto" or "loo".')
    return alphas
