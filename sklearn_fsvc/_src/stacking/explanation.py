"""`explain` of a stacked ensemble: contributions of the centres of all its RBF networks."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..estimators.explanation import Explanation
from ..parts.composition import parts_of
from ..utils.parameters import check_output

# Contributions (n_samples, n_centers) that are computed at a time.
_BLOCK_VALUES = 2**20


def explain_ensemble(prediction: Any, n: int, output: int) -> Explanation:
    """Return the `Explanation` of a column of y, with `n` training samples for each prediction.

    `prediction` is the `StackedPrediction` of the samples.
    """
    target = prediction.parts.target
    check_output(output, target.n_columns)
    networks = centered_networks(prediction.parts.base.named_estimators_)
    support, center_targets = _centers(networks.values(), output)
    n, limit = min(n, len(support)), prediction.parts.base.memory_limit
    n_values = _BLOCK_VALUES if limit is None else min(_BLOCK_VALUES, limit // 64)
    prediction = prediction.in_blocks(max(1, n_values // len(support)))
    parts = [
        _explain_block(prediction, networks, support, center_targets, n, output, *block)
        for block in prediction.decisions(output)
    ]
    columns = zip(*parts, strict=True)
    predictions, rows, targets, *sums = (np.concatenate(values) for values in columns)
    return Explanation(predictions, None, rows, targets, *sums)


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


def _centers(networks, output):
    """Return the row numbers of all centres, ascending, and their y of shape (n_centers,)."""
    rows, targets = [], []
    for parts in map(parts_of, networks):
        of_network = np.asarray(parts.target.center_targets(parts.units))
        rows.append(parts.units.support)
        targets.append(of_network.reshape(len(of_network), -1)[:, output])
    support, first = np.unique(np.concatenate(rows), return_index=True)
    return support, np.concatenate(targets)[first]


def _explain_block(prediction, networks, support, center_targets, n, output, X, decision):
    """Return the arrays of an `Explanation` for a block of samples, without `units`."""
    weighting, intercept = prediction.parts.weighting, decision.intercept
    contributions = np.zeros((len(X), len(support)))  # of all centres
    for index, network in networks.items():
        factor = (1 - weighting.final_weight_) * weighting.weights_[index]
        found = prediction.parts.mapped(network)._explain_decision(
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


def _in_columns(found: Explanation, support: npt.NDArray) -> npt.NDArray:
    """Return the contributions with one column for each row number in `support`."""
    table = np.zeros((len(found.contributions), len(support)))
    columns = np.searchsorted(support, np.asarray(found.support))
    np.put_along_axis(table, columns, found.contributions, axis=1)
    return table
