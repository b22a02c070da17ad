"""Predictions of a stacked ensemble: the sum of the weighted scores of its networks.

They are explained by what each network contributes, or each centre of all RBF networks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import gen_batches

from ..data.rows import row_blocks, slice_rows, take_rows
from ..data.sources import is_in_memory
from ..data.validation import check_no_overlap, to_host
from ..estimators.explanation import Explanation
from ..estimators.prediction import OutputBuffer, as_array_list
from ..parts.composition import parts_of
from ..readouts.residuals import first_activations
from ..utils.parameters import check_output
from .parts import StackedParts

# Contributions (n_samples, n_centers) that are computed at a time.
_CONTRIBUTIONS = 2**20


@dataclass(frozen=True, eq=False)
class Decision:
    """The predictions of one column of y for some samples, and the scores that decide them.

    The first three attributes are those of `TargetSpec.select_decision`. `contributions`, of shape
    (n_samples, n_networks), and `intercept`, of shape (n_samples,), add up to these scores.
    """

    predictions: npt.NDArray
    columns: npt.NDArray
    signs: npt.NDArray
    contributions: npt.NDArray
    intercept: npt.NDArray


@dataclass(frozen=True, eq=False)
class StackedPrediction:
    """A prediction: the parts of a fitted ensemble, and validated samples."""

    parts: StackedParts
    X: Any = None
    block_values: int = 2**21  # values of X and scores in a block of samples

    def empty_output(self, method: str, **options: Any) -> Any:
        """Return an empty output with the dtype and shape of a prediction method."""
        return self._format(method, np.empty((0, len(self._offset))), **options)

    def output(self, method: str, out: Any = None, **options: Any) -> Any:
        """Return the output of a prediction method, in new arrays or in `out`."""
        buffer = OutputBuffer(len(self.X), out)
        if out is not None:
            self.parts.target.check_out(out, (len(self.X), *self.empty_output(method).shape[1:]))
            check_no_overlap(out, self.X)
        for part, X in self._blocks():
            buffer.write(part, self._format(method, self._scores(X), **options))
        return buffer.result

    def quantiles(self, probabilities: npt.NDArray, level: float | None = None) -> npt.NDArray:
        """Return quantiles of y, with the number of quantiles as the last dimension.

        With a confidence level, two quantiles are extended to a frequent value of y.
        """
        target: Any = self.parts.target
        weighting: Any = self.parts.weighting
        distribution = weighting.residual_distribution_
        # The scale of residuals depends on activations of the network with the largest weight.
        networks = list(self.parts.base.named_estimators_.values())
        network = networks[weighting.weights_.argmax()]
        quantiles, buffer = distribution.quantiles(probabilities), OutputBuffer(len(self.X))
        mode = None if level is None else distribution.frequent_mode(level)
        for part, X in self._blocks():
            scores = self._scores(X)
            with network._open_prediction(X, "predict") as run:
                H = first_activations(run.job, run.layer, run.X, distribution.n_units)
            scale = distribution.scale(H, target.standardise(scores))
            buffer.write(part, target.format_quantiles(scores, scale, quantiles, mode))
        return buffer.result

    def contributions(self, output: int) -> npt.NDArray:
        """Return what each network adds to each prediction, (n_samples, n_networks)."""
        check_output(output, self.parts.target.n_columns)
        return np.concatenate([decided.contributions for _, decided in self._decisions(output)])

    def explain(self, n: int, output: int) -> Explanation:
        """Return the `Explanation` of a column of y, by `n` training samples per prediction."""
        target = self.parts.target
        check_output(output, target.n_columns)
        networks = centered_networks(self.parts.base.named_estimators_)
        support, center_targets = _centers(networks.values(), target, output)
        n, limit = min(n, len(support)), self.parts.base.memory_limit
        n_values = _CONTRIBUTIONS if limit is None else min(_CONTRIBUTIONS, limit // 64)
        prediction = self._in_blocks(max(1, n_values // len(support)))
        parts = [
            prediction._explain_block(networks, support, center_targets, n, output, *block)
            for block in prediction._decisions(output)
        ]
        columns = zip(*parts, strict=True)
        predictions, rows, targets, *sums = (np.concatenate(values) for values in columns)
        return Explanation(predictions, None, rows, targets, *sums)

    def _explain_block(self, networks, support, center_targets, n, output, X, decision):
        """Return the arrays of an `Explanation` for a block of samples, without `units`."""
        weighting, intercept = self.parts.weighting, decision.intercept
        contributions = np.zeros((len(X), len(support)))  # of all centres
        for index, network in networks.items():
            factor = (1 - weighting.final_weight_) * weighting.weights_[index]
            found = self.parts.mapped(network)._explain_decision(
                X, output, decision.predictions, decision.columns, decision.signs
            )
            contributions += factor * _in_columns(found, support)
            intercept = intercept + factor * found.intercept
        others = np.delete(decision.contributions, list(networks), axis=1)
        size = np.abs(contributions)
        chosen = np.argsort(-size, axis=1, kind="stable")[:, :n]
        listed = np.take_along_axis(contributions, chosen, axis=1)
        rest = contributions.sum(axis=1) - listed.sum(axis=1) + others.sum(axis=1)
        total = size.sum(axis=1) + np.abs(others).sum(axis=1)
        return (
            decision.predictions, support[chosen], center_targets[chosen], listed, rest, intercept,
            total,
        )  # fmt: skip

    def _in_blocks(self, n_rows: int) -> "StackedPrediction":
        """Return the same with blocks of at most `n_rows` samples."""
        return replace(self, block_values=n_rows * self._row_values)

    def _decisions(self, output: int) -> Iterator[tuple[Any, "Decision"]]:
        """Yield blocks of samples and the `Decision` about one column of y for each block."""
        for _, X in self._blocks():
            scores = np.stack(list(self._weighted_scores(X)))
            decided = self.parts.target.select_decision(
                self._add_up(scores), output, self.parts.weighting
            )
            predictions, columns, signs = decided
            scores = self.parts.map_scores(scores)
            contributions = (signs * scores[:, np.arange(len(columns)), columns]).T
            intercept = signs * self._offset[columns]
            yield X, Decision(predictions, columns, signs, contributions, intercept)

    @cached_property
    def _offset(self):
        """Return the constant term of the scores, (n_scores,)."""
        return self.parts.constant_term

    @property
    def _row_values(self):
        return self.X.shape[1] + len(self._offset)

    def _format(self, method, scores, **options):
        return self.parts.target.format_output(method, scores, self.parts.weighting, **options)

    def _blocks(self) -> Iterator[tuple[slice, Any]]:
        """Return (slice, samples) of blocks of X; all networks use a block that was read once."""
        X, limit = self.X, self.parts.base.memory_limit
        n_values = self.block_values if limit is None else min(self.block_values, limit // 64)
        parts = list(gen_batches(len(X), max(1, n_values // self._row_values)))
        if is_in_memory(X):
            return ((part, slice_rows(X, part)) for part in parts)
        return zip(parts, row_blocks(X, None, parts), strict=True)

    def _scores(self, X):
        """Return the scores of the ensemble, (n_samples, n_scores)."""
        return self._add_up(self._weighted_scores(X))

    def _add_up(self, weighted_scores):
        """Return the scores, (n_samples, n_scores), of what each network adds to them.

        Deviations from the mean of y are added, which are 0 if an output of y is constant: rounding
        errors of products with the weights would make its R² 0.
        """
        weighting = self.parts.weighting
        origin, final_weight = weighting.origin(self.parts.target), weighting.final_weight_
        weights = *((1 - final_weight) * weighting.weights_), final_weight
        pairs = zip(weighted_scores, weights, strict=False)  # there may be no final estimator
        total = origin + sum(scores - weight * origin for scores, weight in pairs)
        total -= weighting.score_offset
        if self.parts.score_map is None:
            return total
        return self.parts.map_scores(total) + self.parts.score_map[1]

    def _weighted_scores(self, X):
        """Yield what each network adds to the scores, (n_samples, n_scores); the final one last."""
        weighting, final = self.parts.weighting, self.parts.base.final_estimator_
        final_weight, total = weighting.final_weight_, np.zeros((len(X), len(self._offset)))
        estimators = self.parts.base.named_estimators_.values()
        for weight, estimator in zip(weighting.weights_, estimators, strict=True):
            scores = weight * _scores_of(estimator, X)
            total += scores
            yield (1 - final_weight) * scores
        if final is not None:
            X = np.asarray(to_host(take_rows(X, slice(None))))
            X = weighting.append_scores(self.parts.target, X, total + weighting.intercept_)
            yield final_weight * _scores_of(final, X)


def _scores_of(network, X):
    """Return the scores of a fitted network, (n_samples, n_scores), of all outputs together."""
    predict = getattr(network, "decision_function", network.predict)
    return np.hstack([np.reshape(scores, (len(X), -1)) for scores in as_array_list(predict(X))])


def centered_networks(networks: dict[str, Any]) -> dict[int, Any]:
    """Return index -> network of those whose units are training samples; raise if none is."""
    found = {
        index: network
        for index, network in enumerate(networks.values())
        if hasattr(network, "explain") and parts_of(network).units.support is not None
    }
    if not found:
        raise ValueError(
            f"The networks of this ensemble, {list(networks)}, have no units that are training "
            "samples: others had too little weight. Use `contributions`, or explain an "
            "RBFClassifier or RBFRegressor."
        )
    return found


def _centers(networks, target, output):
    """Return the row numbers of all centres, ascending, and their y of shape (n_centers,)."""
    rows, targets = [], []
    for parts in map(parts_of, networks):
        of_network = np.asarray(parts.target.center_targets(parts.units))
        rows.append(parts.units.support)
        of_network = of_network.reshape(len(of_network), -1)
        targets.append(target.invert_base_target(of_network)[:, output])
    support, first = np.unique(np.concatenate(rows), return_index=True)
    return support, np.concatenate(targets)[first]


def _in_columns(found: Explanation, support: npt.NDArray) -> npt.NDArray:
    """Return the contributions with one column for each row number in `support`."""
    table = np.zeros((len(found.contributions), len(support)))
    columns = np.searchsorted(support, np.asarray(found.support))
    np.put_along_axis(table, columns, found.contributions, axis=1)
    return table
