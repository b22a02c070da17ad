"""The state of an estimator: saved versions, copies, updates that other threads see as a whole."""

import copyreg
import os
from collections.abc import Callable
from copy import copy
from functools import wraps
from inspect import Parameter, signature
from threading import Lock, RLock
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import sklearn
from sklearn import exceptions

from ..utils.user_warnings import warn
from ..version import __version__

_VERSION_KEY = "_sklearn_fsvc_version"
# The packages whose objects are saved as part of an estimator: older versions may lack a class.
_PACKAGES = (
    ("scikit-learn", sklearn.__version__),  # type: ignore[attr-defined]
    ("numpy", np.__version__),
)


class InconsistentVersionWarning(exceptions.InconsistentVersionWarning):
    """An estimator was saved by another minor version.

    It is a subclass of scikit-learn's warning, so that filters for that one apply.
    """

    def __init__(self, message: str):
        Warning.__init__(self, message)

    __str__ = Warning.__str__


class EstimatorMixin:
    """Mixin of all estimators: copies, the versions in saved ones, and the documentation's URL.

    A saved estimator contains the versions that saved it, and a loaded one is checked. scikit-learn
    does this for the estimators of its own package only.
    """

    # Names of scikit-learn, for the link in its HTML view of an estimator.
    _doc_link_module: ClassVar[str] = "sklearn_fsvc"
    _doc_link_template: ClassVar[str] = (
        "https://sklearn-fsvc.github.io/sklearn-fsvc/classes/{estimator_name}.html"
    )

    def _snapshot(self) -> Self:
        """Return a copy that no other thread changes, for `on_snapshot`."""
        return copy(self)

    def __copy__(self) -> Self:
        """Return a shallow copy.

        The copy of the dictionary is one step for other threads, and attributes that are set later
        on one of the two do not change the other. Without this method, `copy.copy` would run the
        checks of a pickled estimator.
        """
        copied = type(self).__new__(type(self))
        copied.__dict__ = self.__dict__.copy()
        return copied

    def __reduce_ex__(self, protocol):
        reduced: Any = super().__reduce_ex__(protocol)
        make, args, *state = reduced
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            make, args = _new_object, (*args, _PACKAGES)
        return make, args, *state

    def __getstate__(self):
        state: Any = super().__getstate__()
        return state | {_VERSION_KEY: __version__}

    def __setstate__(self, state):
        """Restore a state; parameters that its version did not have get their defaults.

        Warn if the major or minor version differs.
        """
        state = dict(state)
        saved = state.pop(_VERSION_KEY, None)
        if saved is None or _minor(saved) != _minor(__version__):
            _warn_of_version(type(self).__name__, saved)
        super().__setstate__(_default_parameters(type(self)) | state)  # type: ignore[misc]


def _new_object(cls, packages):
    """Return an object without state; warn if it was saved with a newer minor version of a package.

    The state is loaded afterwards, and may fail then: the warning has to come first.
    """
    for (name, saved), (_, installed) in zip(packages, _PACKAGES, strict=False):
        if [int(part) for part in _minor(installed)] < [int(part) for part in _minor(saved)]:
            warn(
                f"This {cls.__name__} was saved with {name} {saved} and is loaded with {name} "
                f"{installed}, which may not be able to load it. Install {name}>={saved}, or have "
                "it saved as a file of skops.",
                InconsistentVersionWarning,
            )
    return cls.__new__(cls)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _default_parameters(cls: type) -> dict[str, Any]:
    parameters = signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not Parameter.empty}


def _warn_of_version(name: str, saved: str | None) -> None:
    version, other = "an unknown version", "the version that saved it"
    if saved is not None:
        version, other = f"version {saved}", f"sklearn-fsvc=={saved}"
    warn(
        f"This {name} was saved by {version} of sklearn_fsvc and is loaded by {__version__}: "
        f"predictions may differ or fail. Fit it again, or install {other}.",
        InconsistentVersionWarning,
    )


# Thread safety. The whole state of an estimator is in its `__dict__`. A method that changes the
# state works on a copy of the estimator, and the dictionary of the copy then replaces that of the
# estimator by one assignment. So other threads, copies and forked children see the state before
# the change or after it, never a mixture of both; and if the method raises, nothing has changed.

Estimator = TypeVar("Estimator")
_MISSING = object()


class _Locks:
    """One re-entrant lock for each estimator.

    They are not attributes of the estimators, which are copied and pickled.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Discard all locks: in a forked child, the threads that hold them do not exist."""
        self._locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._guard = Lock()

    def of(self, model: Any) -> Any:
        with self._guard:
            return self._locks.setdefault(model, RLock())


_LOCKS = _Locks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_LOCKS.reset)


def atomic_update(model: Estimator, update: Callable[[Estimator], Any]) -> Estimator:
    """Call ``update(copy)``; if it does not raise, move the state of the copy to the model.

    Other threads that update the model are blocked meanwhile. A parameter that another thread sets
    meanwhile keeps its new value. Return the copy, which no other thread changes.
    """
    # The lock itself is the context manager: `contextmanager` would leave it locked if
    # KeyboardInterrupt is raised on entry.
    with _LOCKS.of(model):
        state = model.__dict__
        before, copied = state.copy(), copy(model)
        update(copied)
        if model.__dict__ is not state:
            raise RuntimeError(
                f"This {type(model).__name__} was changed by the thread in which it is being "
                "fitted, by a callback or while its data was read. One of the two changes would "
                "be lost; fit it first, and change it afterwards."
            )
        # `set_params` changes the dictionary in place, without a lock.
        set_meanwhile = {k: v for k, v in state.items() if before.get(k, _MISSING) is not v}
        model.__dict__ = copied.__dict__ | set_meanwhile
    return copied


def on_snapshot(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method to run on a copy of the estimator, with its readout solved."""

    @wraps(method)
    def run(self, *args, **options):
        return method(self._snapshot(), *args, **options)

    return run
