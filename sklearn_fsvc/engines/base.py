"""The contract between an engine and everything above it."""

from abc import ABC, abstractmethod

import numpy as np


class Engine(ABC):
    """A place where layers are evaluated.

    An engine receives clean arrays: C-ordered, finite, two-dimensional, of the layer's own
    dtype (``layer.units.dtype``) and number of features. It checks nothing and knows no
    estimator. Making one is cheap: no thread, context or compilation before `load`.

    Attributes
    ----------
    name : str
        What the user writes as ``device``.
    xp : module
        The array namespace of what `hidden` returns (NumPy on the host). Consumers of H,
        such as the readouts, are written over it.
    """

    name: str
    xp = np

    @abstractmethod
    def why_unavailable(self):
        """None if the engine works here, else the sentence the user should read."""

    @abstractmethod
    def memory(self):
        """(free, total) bytes of the memory that arrays of `xp` live in."""

    @abstractmethod
    def load(self, layer):
        """The layer, resident and laid out as `hidden` wants it.

        `layer` is an `RBFLayer` or a `TanhLayer`. What comes back is opaque.
        """

    @abstractmethod
    def loaded_bytes(self, layer):
        """Bytes `load` will take for this layer, without loading it."""

    @abstractmethod
    def hidden(self, loaded, X, out=None):
        """H of shape (rows, units) in ``layer.hidden_dtype``, an array of `xp`.

        `X` is an array of `xp`, `out` a C-ordered one to write into. Each row of H depends
        on its row of X alone: bitwise where the kernels are ours, to rounding where a BLAS
        multiplies.
        """

    @abstractmethod
    def to_device(self, array):
        """A host array as an array of `xp`."""

    @abstractmethod
    def to_host(self, array):
        """An array of `xp` as a NumPy array."""
