"""The contract of engines."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from . import patches, profiles
from .algebra import HOST
from .threads import at_most

# The contract between an engine and everything above it.

# A squared distance under this part of |x|^2 + |c|^2 has cancelled where it was expanded to
# |x|^2 + |c|^2 - 2 x.c, and is computed again from differences.
CANCELLATION = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-4}
# Added to an output, it leaves no room for digits under 2^-40. It is made for outputs up to
# 2048; larger ones come out as coarser multiples.
SHIFT = 1.5 * 2.0**12


def in_steps(H: Any, xp: Any) -> Any:
    """Return outputs to the nearest multiple of 2^-40, a new array in float64: for novelty.

    float64 holds sums of those exactly as long as they are below 2^13: so centres do not depend on
    who sums, and in what parts. Of float32 outputs only those under 2^-17 have digits to round. A
    sum that goes further has passed every threshold under 2^13, rounded or not; to a larger one
    the sums are right to rounding, and blocks may decide what is as near.
    """
    H = xp.add(H, SHIFT, dtype=np.float64)
    H -= SHIFT
    return H


class Engine(ABC):
    """A place where layers are evaluated.

    An engine receives clean arrays: C-ordered, finite, two-dimensional, of the layer's own
    dtype (``layer.units.dtype``) and number of features. It checks nothing and knows no
    estimator. Making one is cheap: no thread, context or compilation before it is entered::

        with get_engine(device) as engine:
            H = engine.hidden(engine.prepare(layer), engine.to_device(X))

    Arrays of `xp` belong to the engine that was entered last in a thread.

    Attributes
    ----------
    name : str
        What the user writes as ``device``; once entered, the very device.
    xp : module
        The array namespace of what `hidden` returns (NumPy on the host). Consumers of H,
        such as the readouts, are written over it.
    algebra : HostAlgebra or its like
        What solves readouts on arrays of `xp`.
    tuned : dict
        Kind of layer -> settings that were measured here; see `settings`. Read from the
        profile of the machine as the engine is entered.
    n_ahead : int
        Tiles of X that `uploads` holds at one time.
    block_rows, round_rows : int
        Rows that novelty selection reads in one go, and those that it settles in a round.
    chunk_units : int
        Centres that they meet at a time; who dies of them is spared the next.
    patch_bytes, patch_threads : int
        Of patches, and of what units answer to them, bytes that are on their way at a time in each
        thread, few enough to stay where the engine is fast; and threads that `divide` takes.
    group_bytes : int
        For groups of rows that `novel_in_each` settles at one time; 0 where it gains nothing.
    auto_work : int or None
        rows x units x features from which ``device="auto"`` takes this engine, if it works;
        None for engines on the host.
    team_work : int or None
        The same for all devices of a numbered engine, if there are several; None for never.
    is_numbered : bool
        Whether there may be several, "name:0" and so on: the number is what it is made with.
    dlpack_type : int
        DLPack's number of the devices whose arrays it takes: 1 is the host, 2 is CUDA.
    packages : tuple of str
        Distributions that it needs, whose versions `info` prints.
    team : Team or None
        Those that share work with it, itself first; None where it works alone.
    """

    name: str
    xp: Any = np
    algebra: Any = HOST
    auto_work: ClassVar[float | None] = None
    team_work: ClassVar[float | None] = None
    is_numbered: ClassVar[bool] = False
    dlpack_type: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ()
    team: Any = None
    tuned: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
    n_ahead: int = 1
    block_rows, round_rows, chunk_units, group_bytes = 4096, 256, 256, 0
    patch_bytes, patch_threads = 2**20, 1

    def __enter__(self) -> Self:
        self.tuned = profiles.read(self.identity())
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    @classmethod
    def count(cls) -> int:
        """Return how many there are of an engine that is numbered."""
        return 1

    def connect(self, members: Sequence["Engine"]) -> None:
        """Let arrays go from one of these engines to another as fast as may be."""
        return None

    def finish(self) -> None:
        """Wait until all that was begun in this thread is done."""
        self.algebra.finish()

    @abstractmethod
    def why_unavailable(self) -> str | None:
        """Return None if the engine works here, else the sentence that the user should read."""

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether it is worth asking why it does not work; cheap."""
        return True

    def algebra_of(self, array: Any) -> Any:
        """Return the algebra for an array of the host or of `xp`: where it lies."""
        return self.algebra if isinstance(array, self.xp.ndarray) else HOST

    def details(self) -> str:
        """Return what `info` prints of it, where it works."""
        return self.name

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Return (free, total) bytes of the memory that arrays of `xp` are in."""

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return what a measurement here depends on: {"engine", "device", "compiler", ...}."""

    @abstractmethod
    def tunables(self, layer: Any) -> Mapping[str, Sequence[Any]]:
        """Return, by name, the values that each setting may have, the default first.

        Every engine has `M` and `asymmetry`, from which `tiling.TileShape` is made; `M`
        over `asymmetry` is a multiple of 256. No setting changes H.
        """

    def settings(self, layer: Any) -> dict[str, Any]:
        """Return the settings to use for this layer: those measured here, else the defaults.

        Those of the same layer in floats where none were measured of rounded outputs.
        """
        tunables, settings, tuned = self.tunables(layer), {}, None
        if self.tuned:
            tuned = self.tuned.get(layer.kind) or self.tuned.get(layer.kind_of_floats)
        if not tuned:
            return {name: values[0] for name, values in tunables.items()}
        for name, values in tunables.items():
            settings[name] = tuned.get(name, values[0])
            if settings[name] not in values:
                why = f"for {layer.kind}, {name}={settings[name]!r} is none of {values}"
                profiles.warn_of(self.identity(), why)
                settings[name] = values[0]
            # The choice itself, for 128.0 == 128.
            settings[name] = values[values.index(settings[name])]
        return settings

    @abstractmethod
    def statistics_dtype(self, layer: Any) -> np.dtype:
        """Return the dtype in which H is multiplied with itself; sums are added in float64."""

    @abstractmethod
    def prepare(self, layer: Any) -> Any:
        """Return the layer, resident on the device and laid out as `hidden` wants it.

        `layer` is an `RBFLayer` or a `TanhLayer`. What comes back is opaque.
        """

    def prepare_for_few(self, layer: Any) -> Any:
        """Prepare for few rows, where nobody limits memory: what takes long may be kept."""
        return self.prepare(layer)

    @abstractmethod
    def prepared_bytes(self, layer: Any) -> int:
        """Return the bytes that `prepare` will take for this layer, without loading it.

        With the layer's own arrays, where they lie in the same memory.
        """

    @abstractmethod
    def row_bytes(self, layer: Any) -> int:
        """Return the bytes that `hidden` takes for a row, beside X and H."""

    @abstractmethod
    def hidden(self, prepared: Any, X: Any, out: Any = None, units: slice | None = None) -> Any:
        """Return H, (rows, units) in ``layer.hidden_dtype``, an array of `xp`.

        `X` is an array of `xp`, `out` a C-ordered one to write into. `units` is a slice:
        only these columns of `out` are computed; it begins at a multiple of 256. Each row
        of H depends on its row of X alone: bitwise where `is_tile_exact` says so, to rounding
        where a BLAS multiplies.
        """

    def outputs(self, layer: Any, D: Any, out: Any) -> Any:
        """Return the outputs of an `RBFLayer` for distances `D`, in `out`."""
        return layer.of_distances(D, out, self.xp)

    def is_tile_exact(self, layer: Any) -> bool:
        """Return whether neither the tile nor a setting changes a bit of H: no BLAS multiplies."""
        return False

    def sparse_evaluator(self) -> Any:
        """Return what takes a ``csr_array`` for layers of products; None: rows come dense."""
        return None

    def divide(self, function: Callable[[slice], Any], n_rows: int) -> None:
        """Call ``function(rows)`` on slices that cover the rows, on the threads for patches."""
        function(slice(0, n_rows))

    def unfold(self, layer: Any, X: Any) -> Any:
        """Return patches of images X as units or their whitening meet them, (places, inputs)."""
        return patches.unfold(layer, X, self.xp)

    def average(self, layer: Any, A: Any, H: Any) -> None:
        """Write the means over cells of what becomes of outputs A into `H`."""
        patches.average(layer, A, H, self.xp)

    def activity(self, prepared: Any, X: Any) -> Any:
        """Return the sum of the outputs of all units for each row of X, of `xp` in float64.

        Outputs are rounded by `in_steps` before: then the sums of parts of the
        units add up to that of all, to the bit.
        """
        return in_steps(self.hidden(prepared, X), self.xp).sum(axis=1)

    @abstractmethod
    def novel(self, layer: Any, X: Any, activity: Any, threshold: float) -> np.ndarray:
        """Return which rows of X the sequential rule of novelty keeps, as integers of the host.

        In order, a row whose activity is under the threshold is kept and adds its unit's
        output, rounded as in `activity`, to the activities of the rows after it.

        `layer` has the rows of `X`, an array of `xp`, for units. `activity` (rows,) in
        float64, an array of `xp`, is what they start with; it may be changed.
        """

    def novel_in_each(self, layers: Sequence[Any], threshold: float) -> list[np.ndarray]:
        """Return `novel` of each of some layers: the rows are the units, and no activity is yet."""
        zeros = self.xp.zeros
        return [self.novel(layer, layer.units, zeros(layer.n_units), threshold) for layer in layers]

    def outputs_by_unit(self, layer: Any, X: Any) -> Any:
        """Return what each unit answers to rows X, a row for each unit, rounded by `in_steps`."""
        H = self.hidden(self.prepare(layer), X)
        return in_steps(self.xp.ascontiguousarray(H.T), self.xp)

    def squared_gradients(self, layer: Any, X: Any, D: Any, W: Any) -> Any:
        """Return how steep the answers of a network are: see `gradients`.

        Parameters
        ----------
        layer : RBFLayer
        X : array of `xp` of shape (rows, n_features)
            In the layer's float dtype, as it meets the units.
        D : array of `xp` of shape (rows, n_units)
            The outputs of ``layer.distances``.
        W : array of shape (n_outputs, n_units)
            Of the host or of `xp`, in any dtype.

        Returns
        -------
        array of `xp` of shape (rows, n_features), float64
            For each row and feature, the sum over the outputs ``W phi(d)`` of their squared
            derivative in this feature. A unit adds nothing to it in a feature where the row
            is at its centre, for the Manhattan distance has a kink there.
        """
        units, W = self._for_gradients(layer, D, W)
        out, slopes = self.xp.empty(X.shape), distance_slopes(layer, D, self.xp)
        square(layer.metric == "manhattan", X, units, slopes, W, out, self.xp)
        return out

    def _for_gradients(self, layer: Any, D: Any, W: Any) -> tuple[Any, Any]:
        """Return the units by feature, and the readout, in the dtype of the distances."""
        xp = self.xp
        units = xp.ascontiguousarray(self.to_device(layer.units).T, dtype=D.dtype)
        return units, xp.ascontiguousarray(self.to_device(W), dtype=D.dtype)

    @abstractmethod
    def to_device(self, array: np.ndarray) -> Any:
        """Return an array of the host as an array of `xp`."""

    def keep(self, array: np.ndarray, there: Any) -> None:
        """Let `to_device` of an array of the host give `there`, of `xp`, from which it came.

        As long as the engine is entered. Nobody may change either.
        """
        return None

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray:
        """Return an array of `xp` as a NumPy array."""

    @abstractmethod
    def upload_if_fits(self, X: Any, limit: int) -> Any:
        """Return X as an array of `xp`, if that takes no more than `limit` bytes, else X itself."""

    @abstractmethod
    def uploads(self, blocks: Iterable[np.ndarray]) -> Iterable[Any]:
        """Yield arrays of the host as arrays of `xp`, the next one already on its way."""

    @abstractmethod
    def sink(self, out: Any) -> "Sink":
        """Return the `Sink` of tiles of H that are to stay in `out`, of the host or of `xp`."""

    @abstractmethod
    def stopwatch(self) -> "Stopwatch":
        """Return a `Stopwatch` for the stages of the work."""


class Sink(ABC):
    """Takes tiles of H to where they stay.

    Attributes
    ----------
    n_buffers : int
        Tiles that are allocated.
    stage : str
        What `put` does, for people to read.
    """

    n_buffers: int
    stage: str = "copy out"

    @abstractmethod
    def buffer(self, part: slice) -> Any:
        """Return an array of `xp` to write the rows `part` of H into."""

    @abstractmethod
    def put(self, part: slice) -> None:
        """Take the buffer of `part`, which is written, to where it belongs."""

    @abstractmethod
    def free(self) -> None:
        """Give the memory of the buffers back; what was put stays."""

    @abstractmethod
    def close(self) -> None:
        """Return once all is there."""


class Stopwatch(ABC):
    """Adds up the time of stages that follow one another."""

    @abstractmethod
    def lap(self, stage: str) -> None:
        """Add the time since the last lap to `stage`."""

    @abstractmethod
    def totals(self) -> dict[str, float]:
        """Return the seconds of each stage."""


# Gradients of the answers of an RBF network with respect to its rows, over any namespace `xp`.
#
# For ``f_o(x) = sum_j W_oj phi(d(x, c_j))`` the chain rule gives ``df_o / dx_k =
# sum_j W_oj s_j t_jk``: what `slopes` makes of the distance, and the step ``t_jk``, which is
# ``sign(x_k - c_jk)`` for the Manhattan distance and ``x_k - c_jk`` for the others. Steps are
# made of differences, feature by feature: an expanded product would cancel where rows are
# close to centres.

# Steps of a block of rows that are made at a time, where those of one feature are fewer: each call
# has its price, and wide tables have many features.
_STEPS = 2**13
# Outputs are taken together as long as their steps are this part of the slopes of all units.
_OUTER = 4


def distance_slopes(layer, D, xp):
    """``phi'(d)``, over d for the Euclidean distance (0 where d is) and twice for its square."""
    slopes = layer.kernel.derivative(D, layer.radius, xp).astype(D.dtype, copy=False)
    if layer.metric == "euclidean":
        slopes /= xp.where(D > 0, D, D.dtype.type(np.inf))
    elif layer.metric == "sqeuclidean":
        slopes *= 2
    return slopes


@at_most(1)
def square(is_manhattan, X, units, slopes, W, out, xp):
    """out[i, k] = sum over outputs of the squared gradient of row i in feature k, in float64.

    With `is_manhattan` a step is the sign of a difference. X (rows, n_features), units (n_features,
    n_units), slopes (rows, n_units) and W (n_outputs, n_units) are C-ordered and of one dtype.
    """
    W, ones = xp.ascontiguousarray(W.T), xp.ones(len(W))
    n_at_a_time = max(1, _STEPS // slopes.size)
    for k in range(0, X.shape[1], n_at_a_time):
        some = slice(k, k + n_at_a_time)
        steps = X[:, some, None] - units[some]
        if is_manhattan:
            xp.sign(steps, out=steps)
        steps *= slopes[:, None]
        gradients = (steps.reshape(-1, len(W)) @ W).astype(np.float64, copy=False)
        out[:, some] = ((gradients * gradients) @ ones).reshape(len(X), -1)


def outer(X, units, slopes, W, weight, algebra):
    """The sum over rows and outputs of the outer product of the gradient with itself.

    For steps ``x - c`` alone: Euclidean distances and their squares. All outputs are products
    of matrices, which cancel where rows lie far from 0: let the mean of the rows be 0.

    X (rows, n_features), units (n_units, n_features), slopes (rows, n_units) and W (n_outputs,
    n_units) are of one dtype, arrays of the algebra; `weight` (rows,) may be None. Returns
    (n_features, n_features) in float64.
    """
    xp, (n_units, n) = algebra.xp, units.shape
    total = xp.zeros((n, n))
    n_at_a_time = max(1, n_units // (_OUTER * n))
    for first in range(0, len(W), n_at_a_time):
        w = W[first : first + n_at_a_time].T
        towards = algebra.multiply(slopes, (w[:, :, None] * units[:, None]).reshape(n_units, -1))
        steps = X[:, None] * algebra.multiply(slopes, w)[:, :, None]
        steps -= towards.reshape(steps.shape)
        gradients = steps.astype(np.float64, copy=False)
        weighted = gradients if weight is None else gradients * weight[:, None, None]
        total += algebra.cross(weighted.reshape(-1, n), gradients.reshape(-1, n))
    return total


def row_bytes(layer, n_outputs):
    """Bytes that a row takes, at most: slopes and steps with what they are made of, and answers."""
    item = layer.hidden_dtype.itemsize
    return layer.n_units * (5 * item + 2) + 24 * n_outputs + 8 * layer.n_features


def fixed_bytes(layer, n_outputs):
    """Bytes that units and readout take, at most: where they are needed, and turned."""
    return 3 * (layer.n_features + n_outputs) * layer.n_units * 8
