"""What a saved estimator says of the version that saved it, and what another one makes of it."""

import copyreg
from inspect import Parameter, signature

import numpy as np
import sklearn
from sklearn import exceptions

from ..user_warnings import warn
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
