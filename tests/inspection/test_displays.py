"""FeatureWeightsDisplay plots the weights of a model, HiddenSizeDisplay the scores of a search."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    RBFClassifier,
    StackedClassifier,
    TanhClassifier,
    TanhProjector,
    make_tabular_pipeline,
)
from sklearn_fsvc.inspection import FeatureWeightsDisplay, HiddenSizeDisplay

plt = pytest.importorskip("matplotlib.pyplot")
IRIS, SPECIES = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[SPECIES]


def texts(labels):
    return [label.get_text() for label in labels]


class TestFeatureWeights:
    # The importances are 0.2, 0.5, 0 and 0.3.
    WEIGHTS = np.array([2, 5, 0, 3]) / IRIS.std(axis=0)

    def fit(self, X=IRIS):
        model = RBFClassifier(
            10, kernel="laplacian", feature_weights=self.WEIGHTS, alpha=1.0, random_state=0
        )
        return model.fit(X, SPECIES)

    def bars(self, display):
        display.figure_.canvas.draw()
        names = texts(display.ax_.get_yticklabels())
        return dict(zip(names, [bar.get_width() for bar in display.bars_], strict=True))

    def test_bars_are_sorted(self):
        """Weights times standard deviations, scaled to a sum of 1."""
        bars = self.bars(FeatureWeightsDisplay.from_estimator(self.fit()))
        assert list(bars) == ["x2", "x0", "x3", "x1"]  # from below
        assert bars == pytest.approx({"x0": 0.2, "x1": 0.5, "x2": 0.0, "x3": 0.3})

    def test_feature_names(self):
        names = ["a", "b", "c", "d"]
        model = self.fit(pd.DataFrame(IRIS, columns=names))
        display = FeatureWeightsDisplay.from_estimator(model, max_features=2)
        assert self.bars(display) == pytest.approx({"d": 0.3, "b": 0.5})
        assert display.ax_.get_xlabel() == "feature importance (2 smaller ones not shown)"
        given = FeatureWeightsDisplay.from_estimator(model, feature_names="wxyz", color="red")
        assert list(self.bars(given)) == ["y", "w", "z", "x"]

    def test_linear_map(self):
        """The weight of a feature is the norm of its row."""
        A = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
        model = TanhProjector(5, feature_weights=A).fit(IRIS / IRIS.std(axis=0))
        bars = self.bars(FeatureWeightsDisplay.from_estimator(model))
        assert bars == pytest.approx({"x0": 5 / 8, "x1": 0.0, "x2": 1 / 8, "x3": 2 / 8})

    def test_buffered_samples_of_partial_fit(self):
        weights = [1.0, 2.0, 0.0, 1.0]
        model = RBFClassifier(
            5, kernel="laplacian", feature_weights=weights, alpha=1.0, random_state=0
        )
        bars = self.bars(FeatureWeightsDisplay.from_estimator(model.partial_fit(IRIS, SPECIES)))
        assert bars == self.bars(FeatureWeightsDisplay.from_estimator(model.solve()))

    def test_combinations_of_a_linear_map(self):
        """Singular vectors times singular values; the features are standardised."""
        U = np.linalg.qr([[1.0, 0], [-2, 0], [0, 1], [0, 3]])[0]
        A = U * [2, 5]
        weights = A / IRIS.std(axis=0)[:, None]
        model = RBFClassifier(5, kernel="laplacian", feature_weights=weights, alpha=1.0)
        model.fit(IRIS, SPECIES)
        for index, expected in ((0, [0, 0, 1, 3]), (1, [-1, 2, 0, 0])):
            display = FeatureWeightsDisplay.from_estimator(model, combination=index)
            expected = np.array(expected) / np.linalg.norm(expected) * (5, 2)[index]
            expected /= np.linalg.norm(A, axis=1).sum()
            np.testing.assert_allclose(display.weights, expected, atol=1e-12)
        assert list(self.bars(display))[2:] == ["x0", "x1"]
        for wrong, network in (
            (2, model),
            (-1, model),
            (0.0, model),
            (True, model),
            (0, self.fit()),
        ):
            with pytest.raises(ValueError, match=r"combination=.* RBFClassifier has"):
                FeatureWeightsDisplay.from_estimator(network, combination=wrong)

    def test_names_of_a_pipeline(self):
        table = pd.DataFrame({"size": IRIS[:, 0], "kind": WORDS})
        kinds = [f"kind_{word}" for word in ("setosa", "versicolor", "virginica")]
        network = RBFClassifier(
            10, kernel="laplacian", feature_weights=[0.1, 2, 3, 4], alpha=1.0, random_state=0
        )
        model = make_tabular_pipeline(network).set_params(preprocessing__values="drop")
        bars = self.bars(FeatureWeightsDisplay.from_estimator(model.fit(table, SPECIES)))
        assert list(bars) == ["size", *kinds]
        network.set_params(feature_weights=[0.1, 2, 3, 4, 0.2])
        model = make_tabular_pipeline(network).fit(table, SPECIES)
        bars = self.bars(FeatureWeightsDisplay.from_estimator(model))
        of_kinds = [f"categorical__{kind}" for kind in kinds]
        assert list(bars) == ["numerical__size", "values__size", *of_kinds]

    def test_stacked_ensemble(self):
        """Also behind a pipeline."""
        table = pd.DataFrame(IRIS, columns=list("abcd"))
        network = RBFClassifier(
            10, kernel="laplacian", feature_weights=[1, 2, 0, 4], alpha=1.0, random_state=0
        )
        ensemble = StackedClassifier([("rbf", network)], random_state=0)
        model = make_pipeline(StandardScaler().set_output(transform="pandas"), ensemble)
        bars = self.bars(FeatureWeightsDisplay.from_estimator(model.fit(table, SPECIES)))
        assert bars == pytest.approx({"a": 1 / 7, "b": 2 / 7, "c": 0.0, "d": 4 / 7})
        ensemble.set_params(rbf__feature_weights=None).fit(IRIS, SPECIES)
        with pytest.raises(ValueError, match="rbf=RBFClassifier has none: its features"):
            FeatureWeightsDisplay.from_estimator(ensemble)
        with pytest.raises(NotFittedError):
            FeatureWeightsDisplay.from_estimator(StackedClassifier())

    def test_invalid_input(self):
        with pytest.raises(NotFittedError):
            FeatureWeightsDisplay.from_estimator(RBFClassifier())
        plain = RBFClassifier(10, feature_weights=None, alpha=1.0).fit(IRIS, SPECIES)
        patches = PatchClassifier(3, alpha=1.0).fit(IRIS, SPECIES)
        for model in (plain, patches, TanhProjector(5).fit(IRIS)):
            with pytest.raises(
                ValueError, match="has no feature importances: its features are not"
            ):
                FeatureWeightsDisplay.from_estimator(model)
        with pytest.raises(ValueError, match="feature_names has 1 names, but the network has 4"):
            FeatureWeightsDisplay.from_estimator(self.fit(), feature_names=["a"])
        with pytest.raises(ValueError, match="max_features=0"):
            FeatureWeightsDisplay.from_estimator(self.fit(), max_features=0)


GRID = {"n_hidden": [5, 20, 10], "alpha": [0.1, 1e6]}


@pytest.fixture(scope="module")
def search():
    network = TanhClassifier(scale=1.0, feature_weights=None, random_state=0)
    return HiddenSizeSearchCV(network, GRID, cv=3).fit(IRIS, SPECIES)


class TestHiddenSizes:
    def score(self, search, alpha, size, statistic="mean"):
        row = search.cv_results_["params"].index({"n_hidden": size, "alpha": alpha})
        return search.cv_results_[f"{statistic}_test_score"][row]

    def test_a_line_for_each_value(self, search):
        display = HiddenSizeDisplay.from_estimator(search, by="alpha")
        for line, alpha in zip(display.lines_, GRID["alpha"], strict=True):
            assert line.get_label() == f"alpha = {alpha}"
            np.testing.assert_array_equal(line.get_xdata(), [5, 10, 20])
            expected = [self.score(search, alpha, size) for size in (5, 10, 20)]
            np.testing.assert_array_equal(line.get_ydata(), expected)
        spread = [self.score(search, 1e6, size, "std") for size in (5, 10, 20)]
        np.testing.assert_array_equal(display.spreads[1], spread)
        assert display.ax_.get_ylabel().startswith("accuracy")
        assert display.ax_.get_legend() is not None

    def test_best_candidate_of_each_size(self, search):
        """alpha=1e6 is never better."""
        (line,) = HiddenSizeDisplay.from_estimator(search).lines_
        best = [max(self.score(search, a, size) for a in GRID["alpha"]) for size in (5, 10, 20)]
        np.testing.assert_array_equal(line.get_ydata(), best)
        where = {"alpha": 1e6}
        (line,) = HiddenSizeDisplay.from_estimator(search, where=where).lines_
        np.testing.assert_array_equal(
            line.get_ydata(), [self.score(search, 1e6, size) for size in (5, 10, 20)]
        )

    def test_grid_search_over_a_pipeline(self):
        """On the axes and in the style of the user."""
        model = make_pipeline(
            StandardScaler(),
            TanhProjector(feature_weights=None, scale=1.0, random_state=0),
            TanhClassifier(10, feature_weights=None, scale=1.0),
        )
        grid = {"tanhprojector__n_components": [3, 6], "tanhclassifier__alpha": [1.0, 2.0]}
        search = GridSearchCV(model, grid, cv=2, scoring="f1_macro").fit(IRIS, SPECIES)
        ax = plt.figure().subplots()
        display = HiddenSizeDisplay.from_estimator(
            search, by="alpha", ax=ax, line_kw={"linestyle": ":"}, fill_kw={"alpha": 0.5}
        )
        assert display.ax_ is ax
        assert display.ax_.get_ylabel().startswith("f1_macro")
        assert [line.get_linestyle() for line in display.lines_] == [":", ":"]
        assert [line.get_label() for line in display.lines_] == ["alpha = 1.0", "alpha = 2.0"]

    def test_several_scores(self):
        model = TanhClassifier(scale=1.0, alpha=1.0, feature_weights=None, random_state=0)
        scoring = ["accuracy", "f1_macro"]
        fitted_search = HiddenSizeSearchCV(
            model, {"n_hidden": [5, 10]}, cv=2, scoring=scoring, refit="f1_macro"
        ).fit(IRIS, SPECIES)
        for name, given in (("f1_macro", None), ("accuracy", "accuracy")):
            (line,) = HiddenSizeDisplay.from_estimator(fitted_search, scoring=given).lines_
            np.testing.assert_array_equal(
                line.get_ydata(), fitted_search.cv_results_[f"mean_test_{name}"]
            )
        with pytest.raises(ValueError, match=r"scoring='loss' must be one of \['accuracy'"):
            HiddenSizeDisplay.from_estimator(fitted_search, scoring="loss")

    def test_invalid_input(self, search):
        with pytest.raises(NotFittedError):
            HiddenSizeDisplay.from_estimator(HiddenSizeSearchCV(TanhClassifier(), GRID))
        with pytest.raises(
            ValueError, match=r"'radius' matches none of the parameters.*'n_hidden'"
        ):
            HiddenSizeDisplay.from_estimator(search, by="radius")
        with pytest.raises(ValueError, match="matches no candidate"):
            HiddenSizeDisplay.from_estimator(search, where={"alpha": 3.0})
        network = TanhClassifier(5, feature_weights=None, scale=1.0)
        other = GridSearchCV(network, {"alpha": [1.0, 2.0]}, cv=2).fit(IRIS, SPECIES)
        with pytest.raises(ValueError, match="'n_hidden' or 'n_components' matches none"):
            HiddenSizeDisplay.from_estimator(other)
        grid = {"n_hidden": [None, 5], "alpha": [1.0]}
        network = RBFClassifier(kernel="triangular", radius=2.0, feature_weights=None)
        fitted_search = GridSearchCV(network, grid, cv=2).fit(IRIS, SPECIES)
        with pytest.raises(ValueError, match="n_hidden=None is the only size"):
            HiddenSizeDisplay.from_estimator(fitted_search, where={"n_hidden": None})
        display = HiddenSizeDisplay.from_estimator(fitted_search)
        assert display.sizes.tolist() == [5]
        expected = fitted_search.cv_results_["mean_test_score"]
        assert [display.default_means[0], display.means[0, 0]] == expected.tolist()
        assert display.ax_.lines[1].get_ydata()[0] == expected[0]
