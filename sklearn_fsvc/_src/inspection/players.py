"""The columns of a table that the features of a network are computed from, by the steps before it.

A player of a Shapley value is a column, with all features that are computed from it alone; a set of
columns that share a feature, such as a product, is a further player.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from ..data.columns import as_data_frame, describe_columns, input_names, iterate_columns
from ..data.validation import to_host
from ..tabular.scalers import ValueScaler

# Columns that each feature of a transformer is computed from, by their positions.
Origins = Sequence[tuple[int, ...]]

# Transformers of each column by itself. Others that return as many features as they get may
# combine them, as `Normalizer` and `KNNImputer` do.
_ELEMENTWISE = (
    MaxAbsScaler, MinMaxScaler, OrdinalEncoder, PowerTransformer, QuantileTransformer, RobustScaler,
    StandardScaler, ValueScaler,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Players:
    """The players, in the order of the columns of X, joint ones last.

    Attributes
    ----------
    names : list of str
    columns : list of tuple of int
        Columns of X of each player: several of a joint one.
    of_features : ndarray of int of shape (n_features,)
        Player of each feature of the network.
    input_names : sequence of str or None
        Names of all columns in `fit`, None if they had no names.
    """

    names: list[str]
    columns: list[tuple[int, ...]]
    of_features: npt.NDArray[np.intp]
    input_names: Sequence[str] | None

    @classmethod
    def of(cls, steps: Pipeline | None, network: Any) -> "Players":
        """Return the players of a network, with the steps of a pipeline before it, if any.

        ValueError if it is unknown what columns a step combines.
        """
        first = steps or network
        origins = origins_of(steps, first.n_features_in_)
        columns = sorted(set(origins), key=lambda each: (len(each), each))
        names = [str(name) for name in input_names(first, None)]
        of_features = np.array([columns.index(each) for each in origins], np.intp)
        return cls(
            [" x ".join(names[j] for j in each) for each in columns],
            columns,
            of_features,
            getattr(first, "feature_names_in_", None),
        )

    def data(self, X: Any) -> npt.NDArray:
        """Return the values of the columns, (n_samples, n_players); NaN for joint players.

        float64 if all are numbers, else objects.
        """
        X = as_data_frame(to_host(X))
        X = X if hasattr(X, "shape") else np.asarray(X)
        values = [_as_objects(np.asarray(column)) for column in iterate_columns(X)]
        kinds = describe_columns(X)[2]
        single = self._positions(X, [each[0] for each in self.columns if len(each) == 1])
        dtype = np.float64 if all(kinds[j] == "number" for j in single) else object
        result = np.full((len(values[0]), len(self.columns)), np.nan, dtype)
        for player, j in enumerate(single):
            result[:, player] = values[j]
        return result

    def _positions(self, X, columns):
        """Return the positions in X of columns, given those in `fit`.

        A `ColumnTransformer` selects columns by their names, in any order and among others.
        """
        if self.input_names is None or not hasattr(X, "columns"):
            return columns
        positions = {name: j for j, name in enumerate(X.columns)}
        names = [self.input_names[j] for j in columns]
        # X with other names, of which scikit-learn has warned, is used in its own order.
        return [positions[name] for name in names] if positions.keys() >= set(names) else columns


def _as_objects(values):
    """Return dates in microseconds, of which NumPy makes objects; of nanoseconds, integers."""
    is_date = values.dtype.kind in "mM"
    return values.astype(f"{values.dtype.kind}8[us]") if is_date else values


def origins_of(transformer: Any, n_columns: int) -> Origins:
    """Return the columns that each feature is computed from, for a fitted transformer.

    Raises
    ------
    ValueError
        If they are not known.
    """
    identity = [(j,) for j in range(n_columns)]
    if transformer is None or isinstance(transformer, str):  # "passthrough"
        return identity
    if isinstance(transformer, Pipeline):
        origins: Origins = identity
        for _, step in transformer.steps:
            origins = _compose(origins_of(step, len(origins)), origins)
        return origins
    if isinstance(transformer, ColumnTransformer):
        return _of_column_transformer(transformer)
    if hasattr(transformer, "feature_origins"):  # of `make_tabular_pipeline`
        return transformer.feature_origins()
    if isinstance(transformer, SelectorMixin):
        return [identity[j] for j in transformer.get_support(indices=True)]
    if isinstance(transformer, MissingIndicator):
        return [identity[j] for j in transformer.features_]
    if isinstance(transformer, SimpleImputer):
        return _of_imputer(transformer, identity)
    if isinstance(transformer, OneHotEncoder):
        return [(j,) for j, size in enumerate(_one_hot_sizes(transformer)) for _ in range(size)]
    is_identity = isinstance(transformer, FunctionTransformer) and transformer.func is None
    if is_identity or isinstance(transformer, _ELEMENTWISE):
        return identity
    raise ValueError(
        f"The step {transformer!r} may combine columns, so that features cannot be attributed to "
        "them. Explain the features instead: shapley_values(pipeline[-1], "
        "pipeline[:-1].transform(X), pipeline[:-1].transform(background))."
    )


def _compose(origins, earlier):
    """Return the origins of two steps, the columns of the first one."""
    return [tuple(sorted({j for i in each for j in earlier[i]})) for each in origins]


def _of_column_transformer(transformer):
    origins: list[tuple[int, ...]] = []
    for name, step, _ in transformer.transformers_:
        outputs = transformer.output_indices_[name]
        if outputs.stop > outputs.start:
            columns = [(j,) for j in transformer._transformer_to_input_indices[name]]
            origins += _compose(origins_of(step, len(columns)), columns)
    return origins


def _of_imputer(imputer, identity):
    """Columns without any value are dropped, and missing-value indicators are appended."""
    kept = [
        each for each, value in zip(identity, imputer.statistics_, strict=True)
        if imputer.keep_empty_features or value == value
    ]  # fmt: skip
    indicated = imputer.indicator_.features_ if imputer.add_indicator else ()
    return kept + [identity[j] for j in indicated]


def _one_hot_sizes(encoder):
    """Return the number of one-hot features of each column."""
    sizes = np.array([len(categories) for categories in encoder.categories_])
    infrequent = getattr(encoder, "infrequent_categories_", [None] * len(sizes))
    sizes -= [0 if each is None else len(each) - 1 for each in infrequent]
    if encoder.drop_idx_ is not None:
        sizes -= [drop is not None for drop in encoder.drop_idx_]
    return sizes
