"""Methods that depend on parameters, and optional packages."""

import re
from functools import update_wrapper, wraps
from importlib.metadata import PackageNotFoundError, requires
from types import MethodType

# Methods that depend on parameters: where one is not there, the error says why.


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


# What to type where an optional package is missing.


def install(extra):
    """The command that brings the packages of an extra of pyproject.toml.

    It names these packages themselves, so that it works wherever this package came from: a
    clone, a wheel or an index.

    Parameters
    ----------
    extra : str

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn_fsvc._src.utils.availability import install
    >>> print(install("skops"))
    pip install '...skops...'
    """
    try:
        needed = requires("sklearn-fsvc") or ()
    except PackageNotFoundError:  # imported from a folder: that is where pip finds the extra
        needed = ()
    of_extra = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    packages = [each.partition(";")[0].strip() for each in needed if of_extra.search(each)]
    return " ".join(["pip install", *(f"'{name}'" for name in packages or [f".[{extra}]"])])
