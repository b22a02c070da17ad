"""What a saved estimator says of the version that saved it, and what another one makes of it."""

import copyreg
import os
from functools import wraps
from inspect import Parameter, signature
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import numpy as np
import sklearn
from sklearn import exceptions

from ..utils.user_warnings import warn
from ..version import __version__

_KEY = "_sklearn_fsvc_version"
# Of packages whose objects are part of what is saved: their older versions may not know them.
_PACKAGES = (("scikit-learn", sklearn.__version__), ("numpy", np.__version__))


class InconsistentVersionWarning(exceptions.InconsistentVersionWarning):
    """A model was saved by another minor version. Filters for scikit-learn's see it, too."""

    def __init__(self, message):
        Warning.__init__(self, message)

    __str__ = Warning.__str__


class Versioned:
    """A mixin: the state that is saved holds the version of this package.

    scikit-learn does the same for its own estimators alone.
    """

    def __reduce_ex__(self, protocol):
        make, args, *state = super().__reduce_ex__(protocol)
        if make is copyreg.__newobj__:
            make, args = _begun, (*args, _PACKAGES)
        return make, args, *state

    def __getstate__(self):
        return super().__getstate__() | {_KEY: __version__}

    def __setstate__(self, state):
        """Take in a state, and parameters that its version did not have, at their defaults.

        It warns where the first two numbers of the versions differ.
        """
        state = dict(state)
        saved = state.pop(_KEY, None)
        if saved is None or _minor(saved) != _minor(__version__):
            _warn(type(self).__name__, saved)
        super().__setstate__(_defaults(type(self)) | state)


def _begun(cls, packages):
    """Make an object without its state, which is read next, and may fail: so it warns now.

    That is, where a package is older, by its first two numbers, than the one that was there.
    """
    for (name, saved), (_, here) in zip(packages, _PACKAGES, strict=False):
        if [int(part) for part in _minor(here)] < [int(part) for part in _minor(saved)]:
            warn(
                f"This {cls.__name__} was saved with {name} {saved} and is loaded with {name} "
                f"{here}, which may not know all that it is made of. Install {name}>={saved}, or "
                "have it saved in a file of skops.",
                InconsistentVersionWarning,
            )
    return cls.__new__(cls)


def _minor(version):
    return version.split(".")[:2]


def _defaults(cls):
    parameters = signature(cls.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not Parameter.empty}


def _warn(name, saved):
    version, other = ("a version that is not known", "the version that saved it")
    if saved is not None:
        version, other = f"version {saved}", f"sklearn-fsvc=={saved}"
    warn(
        f"This {name} was saved by {version} of sklearn_fsvc and is loaded by {__version__}, which "
        f"may answer otherwise, or not at all. Fit it again, or install {other}.",
        InconsistentVersionWarning,
    )


# One model in several threads: who changes it waits for a turn, who asks has it as it stood.
#
# All that a model has learnt lies in its attributes. Whatever changes it works on a copy, and the
# attributes of the copied take the place of its own in one step. So there is no moment at which
# a model is half of one thing and half of another: not for another thread, not for a copy, and
# not for a child process that is forked meanwhile.

_MISSING = object()


class _Turns:
    """A lock for each model, kept outside of it: there is nothing to be copied or saved."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Free for all: in a forked child nobody is left who would end a turn."""
        self._locks, self._guard = WeakKeyDictionary(), Lock()

    def of(self, model):
        with self._guard:
            return self._locks.setdefault(model, RLock())


_TURNS = _Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TURNS.reset)


def copy_of(model):
    """Another model with the same attributes, whatever becomes of those of the first."""
    copied = object.__new__(type(model))
    copied.__dict__ = vars(model).copy()
    return copied


def atomic_update(model, work):
    """Have work done on a copy; if nothing is raised, the model then has the copy's attributes.

    Others who would change the model wait. A parameter that is set meanwhile stays set. Returns
    the copy: what the model became, whatever becomes of it later.
    """
    # No context manager of ours: one that is interrupted as it begins would keep the lock.
    with _TURNS.of(model):
        start, before, copied = vars(model), dict(vars(model)), copy_of(model)
        work(copied)
        if vars(model) is not start:
            raise RuntimeError(
                f"This {type(model).__name__} was changed by the thread in which it is learning, "
                "from within a callback or while its rows were read. One of the two would be "
                "lost; learn first, and change it afterwards."
            )
        since = {k: v for k, v in start.items() if before.get(k, _MISSING) is not v}
        model.__dict__ = vars(copied) | since
    return copied


def on_snapshot(method):
    """A method that answers as the model stands when it is called, with its readout solved."""

    @wraps(method)
    def answer(self, *args, **options):
        return method(self._snapshot(), *args, **options)

    return answer


# Where the documentation of an estimator is, for the links in its picture in a notebook.

URL = "https://sklearn-fsvc.github.io/sklearn-fsvc"


class Documented:
    """A mixin: scikit-learn's HTML view of an estimator links to its page in the docs.

    The two attributes are those that scikit-learn names for packages like this one. Each class
    has a page of its own, in which the link finds the parameter by its text.
    """

    _doc_link_module = "sklearn_fsvc"
    _doc_link_template = URL + "/classes/{estimator_name}.html"
