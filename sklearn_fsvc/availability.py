"""Methods that depend on parameters: where one is not there, the error says why."""

from functools import update_wrapper, wraps
from types import MethodType


def available_if(check):
    """As of `sklearn.utils.metaestimators`, where the error of `check` is the one that is raised.

    scikit-learn's own says only that there is no such attribute, and hides the reason behind it.

    Parameters
    ----------
    check : callable
        Takes the estimator, and raises AttributeError with the reason and the remedy.

    Examples
    --------
    >>> class Estimator:
    ...     def _check(self):
    ...         raise AttributeError("readout='lms' finds none; use 'ridge'.")
    ...
    ...     @available_if(_check)
    ...     def predict_proba(self, X):
    ...         pass
    >>> hasattr(Estimator(), "predict_proba")
    False
    >>> Estimator().predict_proba([[1]])
    Traceback (most recent call last):
    AttributeError: readout='lms' finds none; use 'ridge'.
    """
    return lambda method: _Available(method, check)


class _Available:
    def __init__(self, method, check):
        self._method, self._check = method, check
        update_wrapper(self, method)

    def __get__(self, estimator, owner=None):
        if estimator is not None:
            self._check(estimator)
            return MethodType(self._method, estimator)

        @wraps(self._method)
        def unbound(estimator, *args, **kwargs):
            self._check(estimator)
            return self._method(estimator, *args, **kwargs)

        return unbound
