"""Methods that exist only for some parameters, and installation hints for optional packages."""

import re
from collections.abc import Callable, Iterable
from functools import update_wrapper, wraps
from importlib.metadata import PackageNotFoundError, requires
from types import MethodType
from typing import Any, cast


def available_if(check: Callable[[Any], Any]) -> Callable[[Callable], Any]:
    """Return a decorator of methods that exist only if ``check(estimator)`` does not raise.

    It replaces `sklearn.utils.metaestimators.available_if`, which raises a generic AttributeError
    in place of the one with the reason and the remedy.

    Parameters
    ----------
    check : callable
        Receives the estimator, and raises AttributeError with the reason and the remedy.

    Examples
    --------
    >>> class Estimator:
    ...     def _check(self):
    ...         raise AttributeError("readout='lms' has no probabilities; use 'ridge'.")
    ...
    ...     @available_if(_check)
    ...     def predict_proba(self, X):
    ...         pass
    >>> hasattr(Estimator(), "predict_proba")
    False
    >>> Estimator().predict_proba([[1]])
    Traceback (most recent call last):
    AttributeError: readout='lms' has no probabilities; use 'ridge'.
    """
    return lambda method: _ConditionalMethod(method, check)


class _ConditionalMethod:
    """Descriptor of a method whose attribute access runs a check first."""

    def __init__(self, method, check):
        self._method, self._check = method, check
        update_wrapper(cast(Any, self), method)

    def __get__(self, estimator, owner=None):
        if estimator is not None:
            self._check(estimator)
            return MethodType(self._method, estimator)

        # Accessed on the class: the estimator to check is the first argument of the call.
        @wraps(self._method)
        def unbound(estimator, *args, **kwargs):
            self._check(estimator)
            return self._method(estimator, *args, **kwargs)

        return unbound


def install_command(extra: str, distribution: str = "sklearn-fsvc") -> str:
    """Return the command that installs the packages of an optional-dependencies extra.

    It lists these packages themselves, so that it works wherever this package was installed from:
    a clone, a wheel or an index.

    Parameters
    ----------
    extra : str
        Of pyproject.toml.
    distribution : str, default="sklearn-fsvc"
        The distribution that has the extra.

    Examples
    --------
    >>> from sklearn_fsvc._src.utils.availability import install_command
    >>> print(install_command("skops"))
    pip install '...skops...'
    """
    try:
        requirements = requires(distribution) or ()
    except PackageNotFoundError:  # imported from a source folder, in which pip finds the extra
        requirements = ()
    packages = requirements_of(extra, requirements) or [f".[{extra}]"]
    return " ".join(["pip install", *(f"'{package}'" for package in packages)])


def requirements_of(extra: str, requirements: Iterable[str]) -> list[str]:
    """Return the requirements, in the format of PEP 508, that belong to an extra.

    >>> requirements_of("mkl", ["numpy>=1.26", "mkl>=2024; extra == 'mkl'"])
    ['mkl>=2024']
    """
    marker = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    return [each.partition(";")[0].strip() for each in requirements if marker.search(each)]
