"""The contract between an engine and everything above it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from . import gradients, patches, profiles
from .algebra import HOST

# A squared distance below this fraction of |x|^2 + |c|^2 has cancelled in the expanded product
# |x|^2 + |c|^2 - 2 x.c, and is computed again from the differences.
SQUARE_CANCELLATION = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}
# Adding and subtracting 1.5 * 2^12 rounds a float64 below 2^11 to a multiple of 2^-40, because the
# sum has 52 bits of which the last one counts 2^(12 - 52). Larger numbers are rounded coarser.
SHIFT = 1.5 * 2.0**12
# `Engine.max_automatic_units` of a GPU.
MAX_AUTOMATIC_UNITS_OF_GPU = 8000


def round_activations(H: Any, xp: Any) -> Any:
    """Return activations rounded to multiples of 2^-40, a new array in float64.

    float64 sums such numbers exactly while the sum is below 2^13. Novelty selection compares sums
    of activations with a threshold, so the selected centres do not depend on the order of the sums
    or on the blocks. float32 activations above 2^-17 are multiples already. A sum above 2^13 has
    exceeded any smaller threshold, whatever its rounding; for a larger threshold sums are right to
    rounding, and blocks may decide which of nearly equal candidates is selected.
    """
    H = xp.add(H, SHIFT, dtype=np.float64)
    H -= SHIFT
    return H


class Engine(ABC):
    """Evaluates layers on a device.

    An engine receives clean arrays: C-ordered, finite, two-dimensional, of the dtype of the
    layer (``layer.units.dtype``) and with its number of features. It validates nothing and depends
    on no estimator. Creating one is cheap: threads, contexts and compilation begin when it is
    entered or used::

        with get_engine(device) as engine:
            H = engine.hidden(engine.prepare(layer), engine.to_device(X))

    Arrays of `xp` belong to the engine that was entered last in the thread.

    Attributes
    ----------
    name : str
        The value of ``device`` that selects it; while it is entered, with the device's number.
    xp : module
        The array namespace of H (NumPy on the host). Consumers of H, such as the readouts, are
        written for any namespace.
    algebra : Algebra
        Linear algebra for arrays of `xp`.
    tuned : dict
        Kind of layer -> settings that were measured on this machine; see `settings`. Read from
        the profile of the machine when the engine is entered.
    n_prefetch : int
        Number of tiles of X that `uploads` holds at a time.
    block_rows, round_rows : int
        Samples that novelty selection reads at a time, and candidates that it decides at a time.
    chunk_units : int
        Centres that a block of samples is compared with at a time. Samples whose activation
        exceeds the threshold are not compared with the following chunks.
    max_automatic_units : int
        Number of units that RBF networks have at most if the user gives none: as many as a readout
        of a few seconds allows.
    patch_bytes : int
        Bytes of patches and their activations that are processed at a time in each thread of
        `map_slices`, few enough for the fast memory of the device.
    group_bytes : int
        Memory limit of a call of `select_novel_by_group`; 0 if groups are processed one by one.
    auto_work : int or None
        rows x units x features from which ``device="auto"`` selects this engine, if it works;
        None for engines on the host.
    group_work : int or None
        rows x units x features from which "auto" and "name:all" use all devices of a numbered
        engine; None: "auto" never does, and "name:all" always does.
    is_numbered : bool
        Whether there may be several devices, "name:0" and so on. The number is the argument of
        the class.
    device_types : tuple of str
        Types of devices of an engine for several, "name:type", with a number "name:type:1". What
        follows the name is the argument of the class.
    dlpack_types : tuple of int
        DLPack's device types of the arrays that it accepts besides those of the host: 2 is CUDA.
    packages : tuple of str
        Distributions that it needs, whose versions `info` prints.
    device_group : DeviceGroup or None
        The group of devices that this engine is the first of; None for a single device.
    """

    name: str
    xp: Any = np
    algebra: Any = HOST
    auto_work: ClassVar[float | None] = None
    group_work: ClassVar[float | None] = None
    is_numbered: ClassVar[bool] = False
    device_types: ClassVar[tuple[str, ...]] = ()
    dlpack_types: ClassVar[tuple[int, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()
    device_group: Any = None
    tuned: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    n_prefetch: int = 1
    block_rows: int = 4096
    round_rows: int = 256
    chunk_units: int = 256
    group_bytes: int = 0
    max_automatic_units: int = 4000
    patch_bytes: int = 2**20

    # The device.

    def __enter__(self) -> Self:
        self.tuned = profiles.read(self.identity())
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    @abstractmethod
    def why_unavailable(self) -> str | None:
        """Return None if the engine works here, else the reason and the remedy for the user."""

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the packages of the engine are installed; cheaper than a full check."""
        return True

    @classmethod
    def count(cls) -> int:
        """Return the number of devices of a numbered engine."""
        return 1

    def enable_peer_access(self, engines: Sequence["Engine"]) -> None:
        """Enable direct copies between the devices of these engines."""
        return None

    def synchronize(self) -> None:
        """Block until all work that this thread has started on the device is done."""
        self.algebra.synchronize()

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Return (free, total) bytes of the memory of arrays of `xp`."""

    def describe(self) -> str:
        """Return the description that `info` prints if the engine works."""
        return self.name

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return the properties on which measurements depend: {"engine", "device", ...}."""

    # Settings.

    @abstractmethod
    def tunables(self, layer: Any) -> Mapping[str, Sequence[Any]]:
        """Return the values that each setting may have, by name, the default first.

        Every engine has `M` and `asymmetry`, which define a `data.memory_plan.TileShape`; `M`
        divided by `asymmetry` is a multiple of 256. No setting changes H.
        """

    def settings(self, layer: Any) -> dict[str, Any]:
        """Return the settings for this layer: those measured on this machine, else the defaults.

        If a layer with rounded activations was not measured, the same layer in floats counts.
        """
        tunables, settings, tuned = self.tunables(layer), {}, None
        if self.tuned:
            tuned = self.tuned.get(layer.profile_key) or self.tuned.get(layer.unrounded_profile_key)
        if not tuned:
            return {name: values[0] for name, values in tunables.items()}
        for name, values in tunables.items():
            settings[name] = tuned.get(name, values[0])
            if settings[name] not in values:
                why = f"for {layer.profile_key}, {name}={settings[name]!r} is none of {values}"
                profiles.warn_of(self.identity(), why)
                settings[name] = values[0]
            # The value of the tuple itself: 128.0 == 128, but a kernel needs the integer.
            settings[name] = values[values.index(settings[name])]
        return settings

    @abstractmethod
    def statistics_dtype(self, layer: Any) -> np.dtype:
        """Return the dtype in which H'H is multiplied; sums over tiles are in float64."""

    # Evaluation.

    @abstractmethod
    def prepare(self, layer: Any) -> Any:
        """Return the layer on the device, in the layout that `hidden` needs; opaque to callers.

        `layer` is an `RBFLayer` or a `LinearLayer`.
        """

    def prepare_cached(self, layer: Any) -> Any:
        """Return `prepare` for few samples and unlimited memory; the result may be cached."""
        return self.prepare(layer)

    @abstractmethod
    def prepared_bytes(self, layer: Any) -> int:
        """Return the bytes that `prepare` will allocate, without doing it.

        Including the arrays of the layer itself if they are in the same memory.
        """

    @abstractmethod
    def row_bytes(self, layer: Any) -> int:
        """Return the temporary memory of `hidden` for each sample, besides X and H, in bytes."""

    @abstractmethod
    def hidden(self, prepared: Any, X: Any, out: Any = None, units: slice | None = None) -> Any:
        """Return the activations H, (rows, n_units) in ``layer.hidden_dtype``, an array of `xp`.

        Each row of H depends on its row of X only: bitwise if `is_tile_invariant`, else up to
        rounding, as a BLAS cuts products by their shape.

        Parameters
        ----------
        prepared : object
            Returned by `prepare`.
        X : array of `xp`
        out : C-ordered array of `xp`, optional
            Written to and returned.
        units : slice, optional
            Only these columns of `out` are computed. It starts at a multiple of 256.
        """

    def accepts_uint8(self, layer: Any) -> bool:
        """Return whether `hidden` takes samples of uint8, too, whatever the dtype of the layer."""
        return False

    def activate_distances(self, layer: Any, D: Any, out: Any) -> Any:
        """Return the activations of an `RBFLayer` at distances `D`, in `out`."""
        return layer.from_distances(D, out, self.xp)

    def is_tile_invariant(self, layer: Any) -> bool:
        """Return whether neither tiles nor settings change a bit of H: no BLAS multiplies."""
        return False

    def sparse_evaluator(self) -> Any:
        """Return an evaluator of ``csr_array`` input, or None if samples must be dense."""
        return None

    # Patches of images: see `patches`.

    @property
    def patch_threads(self) -> int:
        """Number of threads of `map_slices`."""
        return 1

    def map_slices(self, function: Callable[[slice], Any], n_rows: int) -> None:
        """Call ``function(rows)`` on slices that cover the rows, on `patch_threads` threads."""
        function(slice(0, n_rows))

    def unfold(self, layer: Any, X: Any) -> Any:
        """Return the normalised patches of images X, (rows * positions, n_inputs)."""
        return patches.unfold(layer, X, self.xp)

    def average_pool(self, layer: Any, A: Any, H: Any) -> None:
        """Write the average pooling of the responses to activations A to `H`."""
        patches.average_pool(layer, A, H, self.xp)

    # Novelty selection.

    def sum_activations(self, prepared: Any, X: Any) -> Any:
        """Return the sum of the activations of all units for each sample, in float64.

        Activations are rounded by `round_activations`: sums over parts of the units add up to that
        over all of them, to the bit.
        """
        return round_activations(self.hidden(prepared, X), self.xp).sum(axis=1)

    @abstractmethod
    def select_novel(self, layer: Any, X: Any, activity: Any, threshold: float) -> np.ndarray:
        """Return the indices of the samples that sequential novelty selection makes centres.

        In order, a sample whose activation sum is below the threshold becomes a centre, and its
        activations, rounded by `round_activations`, are added to the sums of the following samples.

        Parameters
        ----------
        layer : RBFLayer
            Its centres are the samples X.
        X : array of `xp`
        activity : array of `xp` of shape (rows,), float64
            Initial activation sums; may be overwritten.
        threshold : float
        """

    def select_novel_by_group(self, layers: Sequence[Any], threshold: float) -> list[np.ndarray]:
        """Return `select_novel` for several groups of samples, the centres of the layers."""
        zeros = self.xp.zeros
        return [
            self.select_novel(layer, layer.units, zeros(layer.n_units), threshold)
            for layer in layers
        ]

    def hidden_transposed(self, layer: Any, X: Any) -> Any:
        """Return the activations (n_units, rows), rounded by `round_activations`."""
        H = self.hidden(self.prepare(layer), X)
        return round_activations(self.xp.ascontiguousarray(H.T), self.xp)

    # Gradients.

    def squared_gradients(self, layer: Any, X: Any, D: Any, W: Any) -> Any:
        """Return the squared gradients of an RBF network: see `gradients`.

        Parameters
        ----------
        layer : RBFLayer
        X : array of `xp` of shape (rows, n_features)
            In the float dtype of the layer, after feature weights.
        D : array of `xp` of shape (rows, n_units)
            The activations of ``layer.distances``.
        W : array of shape (n_outputs, n_units)
            On the host or of `xp`, in any dtype.

        Returns
        -------
        array of `xp` of shape (rows, n_features), float64
            For each sample and feature, the sum over the outputs ``W phi(d)`` of their squared
            partial derivative. A unit contributes 0 in a feature in which the sample equals its
            centre, because the Manhattan distance is not differentiable there.
        """
        units, W = self._for_gradients(layer, D, W)
        out, slopes = self.xp.empty(X.shape), gradients.distance_slopes(layer, D, self.xp)
        is_manhattan = layer.metric == "manhattan"
        gradients.squared_gradients(is_manhattan, X, units, slopes, W, out, self.xp)
        return out

    def difference_sums(self, X: Any, units: Any, M: Any) -> Any:
        """Return ``sum_j M_ij |x_ik - c_jk|`` for each sample i and feature k.

        If M is the derivative of an error with respect to ``sum_k v_k |x_ik - c_jk|``, the sum over
        the samples is that with respect to the feature weights v.

        Parameters
        ----------
        X, units, M : arrays of `xp` of one float dtype
            (rows, n_features), (n_units, n_features) and (rows, n_units).

        Returns
        -------
        array of `xp` of shape (rows, n_features), float64
        """
        out = self.xp.empty(X.shape)
        gradients.difference_sums(X, self.xp.ascontiguousarray(units.T), M, out, self.xp)
        return out

    def _for_gradients(self, layer: Any, D: Any, W: Any) -> tuple[Any, Any]:
        """Return the transposed units and the output weights, in the dtype of the distances."""
        xp = self.xp
        units = xp.ascontiguousarray(self.to_device(layer.units).T, dtype=D.dtype)
        return units, xp.ascontiguousarray(self.to_device(W), dtype=D.dtype)

    # Transfers.

    @abstractmethod
    def to_device(self, array: np.ndarray) -> Any:
        """Return an array of the host as an array of `xp`."""

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray:
        """Return an array of `xp` as a NumPy array."""

    def to_user(self, array: Any) -> Any:
        """Return an array of `xp` as users of its library have it."""
        return array

    def cache_upload(self, array: np.ndarray, on_device: Any) -> None:
        """Cache the array of `xp` that `to_device` returns for an array of the host.

        Until the engine is left. Neither may be changed.
        """
        return None

    @abstractmethod
    def upload_if_fits(self, X: Any, limit: int) -> Any:
        """Return X as an array of `xp` if that takes no more than `limit` bytes, else X itself."""

    @abstractmethod
    def iter_uploads(self, blocks: Iterable[np.ndarray]) -> Iterable[Any]:
        """Yield arrays of the host as arrays of `xp`, while the next one is being copied."""

    @abstractmethod
    def sink(self, out: Any) -> "Sink":
        """Return a `Sink` that writes tiles of H to `out`, an array of the host or of `xp`."""

    def algebra_of(self, array: Any) -> Any:
        """Return the algebra for an array of the host or of `xp`."""
        return self.algebra if isinstance(array, self.xp.ndarray) else HOST

    @abstractmethod
    def stopwatch(self) -> "Stopwatch":
        """Return a `Stopwatch` for the stages of the work."""


class Sink(ABC):
    """Writes tiles of H to their destination.

    Attributes
    ----------
    n_buffers : int
        Number of tiles that it allocates.
    stage : str
        Name of the time of `put`, as it is printed.
    """

    n_buffers: int
    stage: str = "copy out"

    @abstractmethod
    def buffer(self, part: slice) -> Any:
        """Return an array of `xp` for the rows `part` of H, to be written by the caller."""

    @abstractmethod
    def put(self, part: slice) -> None:
        """Copy the buffer of `part`, which the caller has written, to its destination."""

    def free(self) -> None:
        """Free the memory of the buffers; the destination keeps what was put."""
        return None

    def close(self) -> None:
        """Block until all copies are done."""
        return None


class BufferSink(Sink):
    """A sink with one buffer in the namespace `xp`, whose memory each tile reuses."""

    n_buffers = 1

    def __init__(self, xp: Any, n_columns: int, dtype: np.dtype) -> None:
        self._xp, self._n_columns, self._dtype = xp, n_columns, dtype
        self._memory: Any = None

    def buffer(self, part: slice) -> Any:
        n_rows = part.stop - part.start
        if self._memory is None or len(self._memory) < n_rows:
            self._memory = None  # freed before the larger buffer is allocated
            self._memory = self._xp.empty((n_rows, self._n_columns), self._dtype)
        return self._memory[:n_rows]

    def free(self) -> None:
        self._memory = None


class Stopwatch(ABC):
    """Accumulates the time of consecutive stages."""

    @abstractmethod
    def time_stage(self, stage: str) -> None:
        """Add the time since the last call to a stage."""

    @abstractmethod
    def totals(self) -> dict[str, float]:
        """Return the seconds of each stage."""
