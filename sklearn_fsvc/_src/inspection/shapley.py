"""Exact Shapley values of networks whose units are products over the features."""

from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ..data.memory_plan import host_memory_limit
from ..data.rows import take_rows
from ..data.validation import to_host
from ..layers import RBFLayer
from ..parts.composition import parts_of
from ..stacking.ensemble import StackedEnsemble
from ..utils.parameters import check_integer
from .displays import network_of
from .players import Players
from .product_game import ProductUnits, shapley_of_products

_REMEDY = (
    'Fit RBF units with kernel="laplacian" and metric="manhattan" or with kernel="gaussian" and '
    'metric="euclidean" (kernel="auto" may choose another one), or use '
    "sklearn.inspection.permutation_importance or the package shap, which need no structure."
)


@dataclass(frozen=True, eq=False)
class ShapleyValues:
    """Shapley values: what each feature adds to each score.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_scores), float64
        Of each feature; behind a pipeline, of each column of the table. The first shape for a
        single score, as the shapes of `decision_function` and `predict`.
    base_values : ndarray of shape (n_samples,) or (n_samples, n_scores), float64
        Mean score of the background samples, the same in each row.
    data : ndarray of shape (n_samples, n_features)
        The values of the features; NaN for those that are computed from several columns. float64,
        or objects if some columns are not numeric.
    feature_names : list of str
        Features that are computed from several columns are named "a x b".
    output_names : list of str
        Names of the scores: classes, the second one of two, or columns of y.
    """

    values: npt.NDArray[np.float64]
    base_values: npt.NDArray[np.float64]
    data: npt.NDArray
    feature_names: list[str]
    output_names: list[str]

    @property
    def scores(self):
        """Scores of the samples, of the shape of `base_values`: the sum of all values."""
        return self.base_values + self.values.sum(axis=1)

    def of_output(self, output: int) -> npt.NDArray[np.float64]:
        """Return the values of one score, of shape (n_samples, n_features).

        ValueError if there is no such score, TypeError if `output` is no integer.
        """
        check_integer("output", output)
        if not 0 <= output < len(self.output_names):
            raise ValueError(
                f"output={output!r} must be an index of output_names, which are "
                f"{self.output_names}."
            )
        return self.values if self.values.ndim == 2 else self.values[:, :, output]

    def to_shap(self):
        """Return the values in the form of the package shap, for its plots; shap must be installed.

        Returns
        -------
        shap.Explanation
            With several scores, plots take those of one: ``explanation[:, :, k]``.
        """
        try:
            from shap import Explanation
        except ImportError as error:
            raise ImportError(
                "to_shap needs the package shap, which cannot be imported; pip install shap."
            ) from error
        several = {"output_names": self.output_names} if self.values.ndim == 3 else {}
        data = self.data
        if data.dtype == object:  # its plots do not accept dates
            data = np.vectorize(lambda v: v if isinstance(v, Number) else str(v), otypes="O")(data)
        return Explanation(
            self.values, self.base_values, data, feature_names=self.feature_names, **several
        )


def shapley_values(estimator: Any, X: Any, background: Any) -> ShapleyValues:
    """Compute exact Shapley values of each feature for predictions of an RBF network.

    For a set S of features, let v(S) be the mean score of samples that have the features in S from
    the explained sample and all others from a background sample. The value of a feature is the mean
    increase of v if it is added to S, over all orders in which features can be added (the
    interventional values of [1]_, [2]_). The values and the base value, v of no feature, add up to
    the score. Laplacian units of Manhattan distances and Gaussian units of Euclidean distances are
    products over the features, for which the mean over all orders is an integral of a polynomial
    [3]_. It takes milliseconds per sample.

    Parameters
    ----------
    estimator : RBFClassifier, RBFRegressor, StackedClassifier, StackedRegressor, or Pipeline
        Fitted. A pipeline, such as that of `make_tabular_pipeline`, ends in one of the others. An
        ensemble must be composed of such RBF networks only.
    X : array-like of shape (n_samples, n_columns)
        Samples to explain, as for `predict` of the estimator.
    background : array-like of shape (n_background, n_columns)
        The samples that replace features which are not known: usually about 100 training samples,
        drawn at random, by ``sklearn.utils.resample(X_train, n_samples=100, replace=False)``. All
        of them are used; time is proportional to their number.

    Returns
    -------
    values : ShapleyValues
        Of the scores of the readout. These are the `decision_function` of a classifier, not its
        probabilities, and `predict` of a regressor; if the regressor has transformed y
        (`target_transform`), they are those of the transformed y.

    Raises
    ------
    TypeError
        If the estimator is neither a network or ensemble with a readout, nor a Pipeline that ends
        in one.
    ValueError
        If hidden units are not products over the features: those with other kernels or metrics,
        with a linear map or rounded activations, tanh units and image patches; for an ensemble with
        a final estimator; and if it is unknown what columns a step of the pipeline combines.

    See Also
    --------
    ShapleyDisplay : Plots the result.
    explain : The training samples that contribute most to predictions.

    Notes
    -----
    With the polynomial :math:`\\prod_{i \\ne k} (b_i + t (a_i - b_i))` of the factors a of the
    sample and b of a background sample, the value of feature k is its integral over t in [0, 1],
    times :math:`a_k - b_k`. Gauss-Legendre quadrature with half as many nodes as features is exact.
    With more than 32 features there may be fewer nodes, with a relative error of each integral of
    at most 1e-9. Computations are in float64.

    In a pipeline a column has all features that are computed from it alone, such as its one-hot
    features, ranks and missing-value indicator: they are known together or not at all. Features
    computed from several columns, such as the product of two columns, cannot be attributed to one
    of them. They get values of their own, as if they were a further column, named "a x b".

    References
    ----------
    .. [1] S. M. Lundberg, S.-I. Lee, "A unified approach to interpreting model predictions"
       (NeurIPS 2017).
    .. [2] E. Štrumbelj, I. Kononenko, "Explaining prediction models and individual predictions with
       feature contributions" (Knowledge and Information Systems, 2014).
    .. [3] G. Owen, "Multilinear extensions of games" (Management Science, 1972).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
    >>> from sklearn_fsvc.inspection import shapley_values
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = make_tabular_pipeline(RBFClassifier(kernel="laplacian", random_state=0)).fit(X, y)
    >>> found = shapley_values(model, X[:5], X[::2])
    >>> found.values.shape  # samples, columns, classes
    (5, 13, 3)
    >>> bool(abs(found.scores - model.decision_function(X[:5])).max() < 1e-5)
    True
    """
    steps, network = network_of(estimator)
    members, intercept, target = _weighted_networks(network)
    players = Players.of(steps, network)
    table, limit = X, host_memory_limit(network.max_memory)
    if steps:
        X, background = steps.transform(X), steps.transform(background)
    values: Any = 0.0
    base = intercept
    for member, weight in members:
        units, samples, others = _product_units(member, X, background)
        of_member, mean = shapley_of_products(units, samples, others, players.of_features, limit)
        values, base = values + weight * of_member, base + weight * mean
    base = np.tile(base, (len(values), 1))
    if values.shape[2] == 1:
        values, base = values[:, :, 0], base[:, 0]
    return ShapleyValues(values, base, players.data(table), players.names, _output_names(target))


def _weighted_networks(network: Any) -> tuple[list[tuple[Any, float]], npt.NDArray, Any]:
    """Return networks with their weights, the intercept of the scores, and the target spec.

    Raises for networks that are not supported.
    """
    if isinstance(network, StackedEnsemble):
        named, weights, intercept, target = _split_ensemble(network)
    else:
        parts = parts_of(network)
        if parts is None or parts.target is None:
            raise TypeError(
                f"estimator={network!r} has no scores that are sums over hidden units. Pass an "
                "RBFClassifier, an RBFRegressor, a stacked ensemble of these, or a Pipeline that "
                "ends in one; for other models use the package shap."
            )
        check_is_fitted(network)
        named, weights, target = {"": network}, [1.0], parts.target
        intercept = np.zeros(len(parts.readout.readout_intercept_))
    for name, member in named.items():
        why = _why_no_product(parts_of(member))
        if why is not None:
            of_ensemble = f" {name!r} of the ensemble" if name else ""
            raise ValueError(
                f"Shapley values are computed for units that are products over the features, and "
                f"those of {type(member).__name__}{of_ensemble} are not: {why}. {_REMEDY}"
            )
    members = list(zip(named.values(), weights, strict=True))
    for member, weight in members:
        intercept = intercept + weight * parts_of(member).readout.readout_intercept_
    return members, intercept, target


def _split_ensemble(ensemble):
    """Return the base estimators by name, their weights, the intercept, and the target spec."""
    check_is_fitted(ensemble)
    parts = ensemble._stacked_parts()
    if parts.base.final_estimator_ is not None:
        raise ValueError(
            f"The final_estimator_ of this {type(ensemble).__name__} gets scores as features, "
            "so that the ensemble is not a sum of products over the features. Set "
            f"final_estimator=None. {_REMEDY}"
        )
    named = {name: parts.mapped(one) for name, one in parts.base.named_estimators_.items()}
    return named, parts.weighting.weights_, parts.constant_term, parts.target


def _why_no_product(parts: Any) -> str | None:
    """Return why units are not products over the features; None if they are."""
    layer = parts.units.layer
    if not isinstance(layer, RBFLayer):
        return f"the formula of a unit is {layer.formula}"
    if layer.is_mapped:
        return 'a linear map combines the features; use feature_weights="learned" or None'
    if layer.quantizer is not None:
        return f'activations are rounded to {layer.quantizer.bits} bits; use precision="float"'
    if _rate(layer) is None:
        return f"kernel_={parts.units.kernel_!r} of {layer.metric} distances"
    if parts.uses_nearest_unit:
        return 'distant samples get the class of the nearest centre; use readout="ridge"'
    return None


def _rate(layer: RBFLayer) -> float | None:
    """Return r of units ``exp(-r sum)``, with the sum of a layer over the features, else None."""
    affine, exponent = layer.affine, layer.function.exponent
    is_plain = affine.offset == 0 and affine.floor == -np.inf and affine.scale < 0
    if not is_plain or layer.power > 1 or layer.power * exponent != 1:
        return None
    return float((-affine.scale) ** exponent)


def _product_units(network: Any, X: Any, background: Any) -> tuple[Any, npt.NDArray, npt.NDArray]:
    """Return the units of a network, and samples as its units get them."""
    samples = []
    for data in (X, background):
        with network._open_prediction(data, "explain") as run:
            layer = run.layer
            block = to_host(take_rows(run.X, slice(None), layer.units.dtype))
            with np.errstate(over="ignore"):
                samples.append(block if layer.weights is None else block * layer.weights)
    power, rate = 1 if layer.reduction == "manhattan" else 2, _rate(layer)
    assert rate is not None
    coef = parts_of(network).readout.readout_coef_
    return ProductUnits(layer.units, rate, power, coef), *samples


def _output_names(target: Any) -> list[str]:
    """Return a name for each score."""
    labels = getattr(target, "labels", None)
    if labels is None:
        return ["y"] if target.n_columns == 1 else [f"y{k}" for k in range(target.n_columns)]
    return [
        str(name) if labels.is_single else f"y{k}: {name}"
        for k, classes in enumerate(labels.classes_per_output)
        for name in (classes[1:] if len(classes) == 2 else classes)
    ]
