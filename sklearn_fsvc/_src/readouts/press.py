"""Leave-one-out scores of all rows, by ridge readouts of several penalties in one pass.

The formulas are those of `leave_one_out.py`. A row is multiplied by the inverse factor of the
normal matrix of each penalty, or, for many penalties, by eigenvectors that all of them share.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from ..data.job import Job
from ..data.map_reduce import MapReduce, map_reduce
from ..data.memory_plan import check_fits
from ..data.streaming import Consumer, stream
from ..engines.algebra import HOST
from ..engines.threads import limit_blas_threads
from .leave_one_out import leave_out, min_one_minus_leverage, without_unit
from .linear import Posterior, Solution
from .packed_symmetric import WIDTH
from .statistics import MAX_FACTORS, RidgeStatistics
from .uncovered import UncoveredRows

# The part of the memory for arrays of the scores of uncovered rows.
_FILL_SHARE = 16


class PressResult(NamedTuple):
    """Ridge readouts of several penalties, with their leave-one-out errors."""

    alphas: Any  # sequence of float
    solutions: list[Solution]  # for each penalty
    # (n_alphas,): weighted mean over the rows of the squared leave-one-out error, summed over
    # outputs; infinite if the score of a row is unknown.
    errors: npt.NDArray
    # (n_alphas, n_rows, n_outputs): scores of each row without itself, in the dtype of H; None if
    # they are not kept.
    scores: npt.NDArray | None
    posterior: Any = None  # ``posterior(k)`` returns the `Posterior` at penalty number k


def compute_press(
    job: Job,
    layer: Any,
    samples: Any,
    statistics: RidgeStatistics,
    alphas: Any,
    keep_scores: bool,
    rows: npt.NDArray | None = None,
    center_outputs: npt.NDArray | None = None,
) -> PressResult:
    """Return ridge readouts and their leave-one-out errors, by one more pass over the rows.

    Parameters
    ----------
    samples : Samples
        The units at these samples (`unit_at_sample`) are left out with them.
    statistics : RidgeStatistics
        Of all rows.
    alphas : sequence of float
    keep_scores : bool
        Whether to keep the scores: always for one penalty, for several if a quarter of the memory
        holds them.
    rows : ndarray of int, optional
        The rows that are left out, ascending; all by default.
    center_outputs : ndarray of shape (n_units, n_outputs), optional
        Targets of the centres, for the scores of uncovered rows; None if these are intercepts.
    """
    # With no more rows than units, leverages are near 1 and need the digits of float64.
    m, is_few = layer.n_units, len(samples.rows_with_weight) <= layer.n_units
    dtype = np.dtype(np.float64) if is_few else layer.hidden_dtype
    n_bases = len(alphas) if len(alphas) <= MAX_FACTORS else 1
    needed = LOOScorer.nbytes(m, dtype.itemsize, job.engine.algebra, n_bases)
    limit = job.memory_limit
    check_fits("leave-one-out", needed, limit)
    scorer, solutions = LOOScorer.build(statistics, alphas, dtype)
    n_rows = len(samples if rows is None else rows)
    kept_bytes = dtype.itemsize * len(alphas) * n_rows * samples.targets.n_outputs
    keep_scores = keep_scores and (len(alphas) == 1 or kept_bytes <= limit // 4)
    fixed_bytes = needed + kept_bytes if keep_scores else needed
    fills = center_outputs is not None and layer.has_compact_support
    press_pass = _PressPass(layer, scorer, keep_scores, fixed_bytes, fills)
    sums = map_reduce(job, samples, press_pass, rows)
    if len(sums.uncovered):
        _fill_uncovered(job, samples, press_pass, sums, rows, center_outputs)
    posterior = partial(scorer.posterior, sums=sums)
    return PressResult(alphas, solutions, sums.errors, sums.scores, posterior)


def _fill_uncovered(job, samples, press_pass, sums, rows, center_outputs):
    """Score uncovered rows by their nearest unit: correct the errors and the scores in `sums`."""
    job, numbers = job.silent(), sums.uncovered if rows is None else rows[sums.uncovered]
    uncovered = UncoveredRows(
        job, press_pass.layer, samples.X, samples.unit_at_sample, center_outputs
    )
    uncovered.is_uncovered[numbers] = True
    again = replace(press_pass, keep_scores=True, fills_uncovered=False)
    alphas = job.engine.to_host(press_pass.scorer.alphas)[:, None, None]
    step = max(1, job.memory_limit // _FILL_SHARE // (8 * alphas.size * sums.noise.shape[1]))
    for part in gen_batches(len(numbers), step):
        batch = numbers[part]
        intercepts = map_reduce(job, samples, again, batch).scores
        scores = uncovered.shrunk(intercepts, alphas, part)
        Y, weight = samples.targets.matrix(batch, np), samples.weight_or_ones(batch)
        change = (np.square(Y - scores) - np.square(Y - intercepts)).sum(axis=2)
        sums.errors = sums.errors + change @ weight / press_pass.scorer.n
        if sums.scores is not None:
            sums.scores[:, sums.uncovered[part]] = scores


@dataclass(eq=False)
class LOOSums:
    """Sums over rows that were left out one at a time; those of disjoint rows add up.

    Attributes
    ----------
    errors : array of shape (n_alphas,)
        As of `PressResult`, for the rows so far.
    noise, noise_weight : arrays of shape (n_alphas, n_outputs) and (n_alphas,)
        Sums of ``w (1 - s) e^2`` for the residuals e, and of ``w (1 - s)^2``. Their quotient
        estimates the variance of the noise: see `LOOScorer.posterior`.
    scores : ndarray or None
        As of `PressResult`.
    uncovered : ndarray
        The rows that no unit covers, without their own ones, counted from the first of these; none
        if their scores are intercepts.
    n_rows : int
    """

    errors: Any
    noise: Any
    noise_weight: Any
    scores: Any
    uncovered: npt.NDArray
    n_rows: int

    def __add__(self, other: "LOOSums") -> "LOOSums":
        """Return the sums of these rows and of those that follow them."""
        scores = None
        if self.scores is not None:
            scores = np.concatenate([self.scores, other.scores], axis=1)
        return LOOSums(
            self.errors + other.errors, self.noise + other.noise,
            self.noise_weight + other.noise_weight, scores,
            np.concatenate([self.uncovered, self.n_rows + other.uncovered]),
            self.n_rows + other.n_rows,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _PressPass(MapReduce):
    """The pass over the rows of `compute_press`."""

    layer: Any
    scorer: "LOOScorer"
    keep_scores: bool
    fixed_bytes: int  # those of the scorer and of the scores
    fills_uncovered: bool  # whether uncovered rows are found

    def __call__(self, job, samples, rows=None):
        engine, keep_scores = job.engine, self.keep_scores
        scorer = self.scorer.on(engine.algebra)
        n_alphas, n_outputs = len(scorer.alphas), samples.targets.n_outputs
        n_rows = len(samples if rows is None else rows)
        xp = engine.xp
        sums = LOOSums(
            xp.zeros(n_alphas), xp.zeros((n_alphas, n_outputs)), xp.zeros(n_alphas),
            np.empty((n_alphas, n_rows, n_outputs), scorer.dtype) if keep_scores else None,
            np.empty(0, np.intp), n_rows,
        )  # fmt: skip
        uncovered, units = [sums.uncovered], xp.asarray(np.arange(self.layer.n_units))

        def consume(at, H):
            part = at if rows is None else rows[at]
            Y = samples.targets.matrix(part, xp)
            unit_at_sample = (
                None if samples.unit_at_sample is None else samples.unit_at_sample[part]
            )
            if self.fills_uncovered:  # before H is overwritten
                is_other = units != xp.asarray(unit_at_sample)[:, None]
                is_covered = engine.algebra.any((H != 0) & is_other, axis=1)
                uncovered.append(at.start + np.flatnonzero(~is_covered))
            scores = scorer.scores(H, Y, sums, samples.weight_of(part), unit_at_sample)
            if keep_scores:
                sums.scores[:, at] = engine.to_host(scores).swapaxes(0, 1)

        m, itemsize = self.layer.n_units, scorer.dtype.itemsize
        row_bytes = scorer.row_bytes(m, n_outputs, itemsize, engine.algebra, n_alphas)
        stream(job, self.layer, samples.X, Consumer(consume, self.fixed_bytes, row_bytes), rows)
        return replace(
            sums, errors=engine.to_host(sums.errors), noise=engine.to_host(sums.noise),
            noise_weight=engine.to_host(sums.noise_weight), uncovered=np.concatenate(uncovered),
        )  # fmt: skip

    @staticmethod
    def add(first, second):
        return first + second


@dataclass(frozen=True, eq=False)
class LOOScorer:
    """Leave-one-out scores of tiles of H, by the ridge readouts of several penalties.

    Immutable: several devices and processes score rows with copies of one scorer.
    """

    algebra: Any
    dtype: np.dtype  # in which rows are whitened
    bases: "tuple[_Basis, ...]"  # which cover the penalties in their order
    alphas: Any  # (n_alphas,)
    n: float  # sum of the weights of all rows
    mean_h: Any  # (n_units,), in `dtype`
    mean_y: Any  # (n_outputs,)

    @classmethod
    def build(
        cls, statistics: RidgeStatistics, alphas: Any, dtype: npt.DTypeLike
    ) -> "tuple[LOOScorer, list[Solution]]":
        """Return the scorer of the statistics of all rows, and the solutions of the penalties."""
        dtype, xp = np.dtype(dtype), statistics.xp
        solutions: list[Solution] = []
        bases = []
        for diagonal in statistics.diagonalise(alphas):
            more, basis = _solve_in_basis(diagonal, statistics, dtype)
            solutions += more
            bases.append(basis)
        scorer = cls(
            statistics.algebra, dtype, tuple(bases), xp.asarray(np.array(alphas, np.float64)),
            statistics.n, statistics.mean.astype(dtype), statistics.y / statistics.n,
        )  # fmt: skip
        return scorer, solutions

    def on(self, algebra: Any) -> "LOOScorer":
        """Return the same scorer in arrays of another algebra."""
        return self._moved(algebra, algebra.to_device)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with host arrays, for pickle."""
        return vars(self._moved(HOST, self.algebra.to_host))

    def _moved(self, algebra, move):
        return LOOScorer(
            algebra, self.dtype, tuple(basis.moved(move) for basis in self.bases),
            move(self.alphas), self.n, move(self.mean_h), move(self.mean_y),
        )  # fmt: skip

    @staticmethod
    def nbytes(n_units: int, itemsize: int, algebra: Any, n_bases: int = 1) -> int:
        """Return the bytes of a scorer on the engine, at most."""
        bases = RidgeStatistics.diagonalise_bytes(n_units, algebra)
        return bases + (n_bases + 2 * (algebra.n_split_terms - 1)) * n_units**2 * itemsize

    @staticmethod
    def row_bytes(n_units: int, n_outputs: int, itemsize: int, algebra: Any, n_alphas: int) -> int:
        """Return the bytes that `scores` allocates for a row."""
        output_bytes = 8 * (10 * n_outputs + 10) * n_alphas
        return (2 * algebra.n_split_terms + 3) * n_units * itemsize + output_bytes

    @limit_blas_threads(1)
    def scores(
        self,
        H: Any,
        Y: Any,
        sums: LOOSums,
        weight: npt.NDArray | None = None,
        unit_at_sample: npt.NDArray | None = None,
    ) -> Any:
        """Return scores (n_rows, n_alphas, n_outputs) of rows, each without itself, in float64.

        And without its own unit, if there is one. Adds the errors and the noise to `sums`. H is
        overwritten.
        """
        algebra, xp = self.algebra, self.algebra.xp
        H = H.astype(self.dtype, copy=False)
        H -= self.mean_h
        squared_norms = (H * H).sum(axis=1).astype(np.float64)
        lower_bound = min_one_minus_leverage(self.dtype, squared_norms[:, None], self.alphas)
        scores, leverage = self._in_sample(algebra.split(H), Y.shape[1], unit_at_sample)
        weight = xp.ones(len(H)) if weight is None else xp.asarray(weight)
        Y, one_minus_leverage = Y[:, None, :], 1 - weight[:, None] * leverage
        left_out, is_unknown = leave_out(
            xp, Y, scores, one_minus_leverage, lower_bound, self.mean_y
        )
        sums.errors += xp.tensordot(weight, ((Y - left_out) ** 2).sum(axis=2), 1) / self.n
        sums.errors += xp.where(is_unknown.any(axis=0), np.inf, 0.0)
        sums.noise += xp.tensordot(weight, one_minus_leverage[:, :, None] * (Y - scores) ** 2, 1)
        sums.noise_weight += xp.tensordot(weight, one_minus_leverage**2, 1)
        return left_out

    def _in_sample(self, H_parts, n_outputs, unit_at_sample):
        """Return scores of rows by the readouts of all rows, and leverages, without own units.

        Of shape (n_rows, n_alphas, n_outputs) and (n_rows, n_alphas). `H_parts` are centred rows,
        split by ``algebra.split``.
        """
        xp, U = self.algebra.xp, self.algebra.xp.empty(H_parts[0].shape, self.dtype)
        results: list[list] = []
        for basis in self.bases:
            basis.transform(H_parts, U, self.algebra)
            result = [basis.outputs(U, n_outputs, self.algebra)]
            if unit_at_sample is not None:
                # The whitened unit vectors of the own units are rows of the basis.
                V = basis.vectors[xp.asarray(np.maximum(unit_at_sample, 0))]
                V *= xp.asarray((unit_at_sample >= 0)[:, None])
                result += [
                    basis.inner_products(U * V),
                    basis.outputs(V, n_outputs, self.algebra),
                    basis.inner_products(xp.multiply(V, V, out=V)),
                ]
            result.append(basis.inner_products(xp.multiply(U, U, out=U)))
            results.append(result)
        scores, *own, leverage = (
            xp.concatenate(each, axis=1) for each in zip(*results, strict=True)
        )
        scores += self.mean_y
        leverage += 1 / self.n
        if unit_at_sample is None:
            return scores, leverage
        product, coefficients, square = own
        return without_unit(scores, leverage, product, square, coefficients)

    def posterior(self, k: int, sums: LOOSums) -> Posterior:
        """Return the `Posterior` at penalty number k, with the noise that all rows show.

        The variance of the leave-one-out residual of row i is that of the noise over ``1 - s``.
        The noise is estimated so that the squared residuals, each in units of its own variance, are
        1 on average, with the weights ``(1 - s)^2``. Residuals and leverages are those without the
        own unit of a row: new rows are hardly ever as close to a unit as the row at its centre.

        Raises
        ------
        ValueError
            If no row has a residual: a single one, or each determines its own score.
        """
        squares, total = sums.noise[k], sums.noise_weight[k]
        if not (total > 0 and (squares >= 0).all()):
            raise ValueError(
                "uncertainty=True estimates the noise from leave-one-out residuals, and there is "
                "none: there is only one sample, or alpha is so small that each sample determines "
                "its own prediction. Pass two samples or more and a larger alpha, or set "
                "uncertainty=False."
            )
        noise = self.algebra.to_device(np.sqrt(squares / total))
        for basis in self.bases:
            n_penalties = basis.scale.shape[1]
            if k < n_penalties:
                root = basis.vectors * self.algebra.xp.sqrt(basis.scale[:, k])
                return Posterior(root, self.mean_h, self.n, noise)
            k -= n_penalties
        raise IndexError("no penalty has this number")


@dataclass(frozen=True, eq=False)
class _Basis:
    """A `DiagonalBasis` in the dtype of H, and the readouts of its penalties in this basis."""

    vectors: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    readouts: Any  # (n_directions, n_penalties * n_outputs)
    is_triangular: bool  # whether `vectors` is 0 below the diagonal

    def moved(self, move):
        """Return the same basis with ``move(array)`` for each array."""
        return _Basis(move(self.vectors), move(self.scale), move(self.readouts), self.is_triangular)

    def outputs(self, U, n_outputs, algebra):
        """Return outputs (n_rows, n_penalties, n_outputs) of rows U in this basis, in float64."""
        products = algebra.multiply(U, self.readouts).astype(np.float64)
        return products.reshape(len(U), -1, n_outputs)

    def inner_products(self, UV):
        """Return ``u' (A + alpha I)^-1 v``, (n_rows, n_penalties), of rows in this basis.

        Given ``u * v`` of each pair of rows.
        """
        return (UV @ self.scale).astype(np.float64)

    def transform(self, H_parts, U, algebra):
        """Write rows in this basis into U; `H_parts` are the rows, split by ``algebra.split``.

        Of a triangular basis, products with the zeros below the diagonal are skipped.
        """
        vectors, m = algebra.split(self.vectors), U.shape[1]
        width = WIDTH if self.is_triangular else m
        for first in range(0, m, width):
            columns = slice(first, first + width)
            used = slice(columns.stop if self.is_triangular else None)
            algebra.gemm_split(
                U.T[columns], [v[used, columns].T for v in vectors], [h[:, used].T for h in H_parts]
            )


def _solve_in_basis(diagonal, statistics, dtype):
    """Return the solutions of the penalties of a `DiagonalBasis`, and its `_Basis`."""
    vectors, scale, problems, is_triangular = diagonal
    target = vectors.T @ statistics.right
    solutions = [
        statistics.to_solution(vectors @ (scale[:, [k]] * target), problem)
        for k, problem in enumerate(problems)
    ]
    readouts = (scale[:, :, None] * target[:, None, :]).reshape(len(target), -1)
    vectors, scale, readouts = (
        statistics.xp.ascontiguousarray(array, dtype) for array in (vectors, scale, readouts)
    )
    return solutions, _Basis(vectors, scale, readouts, is_triangular)
