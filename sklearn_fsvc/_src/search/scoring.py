"""Whether candidates have what their scorers ask for, before anything is fitted."""

from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _Scorer
from sklearn.utils.multiclass import type_of_target

from ..rows.validation import to_host
from .wrappers import last_step


def check_scoring(scoring, estimator, candidates, y):
    """Raise if a scorer of scikit-learn's asks for what no candidate has, or is not for this y.

    No fit could be scored: there would be a traceback for each, and NaN.
    """
    if "roc_auc" in (name for name in _each(scoring) if isinstance(name, str)):
        _check_two_classes(y)
    asked = [(name, _methods_of(name)) for name in _each(scoring)]
    asked = [(name, methods) for name, methods in asked if methods]
    if not asked:
        return
    fits = [clone(estimator).set_params(**clone(each, safe=False)) for each in candidates]
    for name, methods in asked:
        if fits and not any(hasattr(fit, method) for fit in fits for method in methods):
            why = _why_not(last_step(fits[0]), methods[-1])
            raise ValueError(f"scoring={name!r} needs {' or '.join(methods)}, and {why}")


def may_want_probabilities(scoring):
    """Whether some scorer asks for them, or is of the user's own, so that nobody knows."""
    for each in _each(scoring):
        is_own = callable(each) and not isinstance(each, _Scorer)
        if is_own or {"predict_proba", "predict_log_proba"} & set(_methods_of(each)):
            return True
    return False


def _check_two_classes(y):
    is_array = y is not None and not isinstance(y, str)
    if is_array and type_of_target(to_host(y)) == "multiclass":
        raise ValueError("scoring='roc_auc' is for two classes, and y has more; use 'roc_auc_ovr'.")


def _each(scoring):
    if isinstance(scoring, dict):
        return list(scoring.values())
    return list(scoring) if isinstance(scoring, (list, tuple, set)) else [scoring]


def _methods_of(scorer):
    """Names of the methods one of which the scorer asks for, () where that is not known."""
    try:
        scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
    except ValueError:
        return ()  # scikit-learn says that there is none of this name
    methods = scorer._response_method if isinstance(scorer, _Scorer) else ()
    return (methods,) if isinstance(methods, str) else tuple(methods)


def _why_not(network, method):
    try:
        getattr(network, method)
    except AttributeError as error:  # what stands around a network has what it has
        return str(error)
