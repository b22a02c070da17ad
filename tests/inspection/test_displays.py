"""The displays: what is drawn is what the model or the search holds."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    make_tabular_pipeline,
)
from sklearn_fsvc.inspection import ExplanationDisplay, FeatureWeightsDisplay, HiddenSizeDisplay

plt = pytest.importorskip("matplotlib.pyplot")
IRIS, SPECIES = load_iris(return_X_y=True)
WORDS = np.array(["setosa", "versicolor", "virginica"])[SPECIES]


@pytest.fixture(autouse=True)
def canvas():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def texts(labels):
    return [label.get_text() for label in labels]


@pytest.fixture(scope="module")
def flowers():
    return RBFClassifier(30, random_state=0).fit(IRIS, WORDS)


class TestExplanations:
    def test_bars(self, flowers):
        """Training rows, the rest and the intercept, in this order from above: all of the score."""
        X = IRIS[[0, 75]]
        display = ExplanationDisplay.from_estimator(flowers, X, n=3)
        found = flowers.explain(X, 3)
        assert display.ax_.shape == (2,)
        for i, ax in enumerate(display.ax_):
            ax.figure.canvas.draw()
            lengths = {bar.get_y(): bar.get_width() for bar in ax.containers[0]}
            lengths = [lengths[y] for y in sorted(lengths, reverse=True)]
            expected = [*found.contributions[i], found.rest[i], found.intercept[i]]
            np.testing.assert_allclose(lengths, expected)
            names = [f"row {row}: {WORDS[row]}" for row in found.support[i]]
            assert texts(ax.get_yticklabels()) == [*names, "all other units", "intercept"]
            assert WORDS[[0, 75][i]] in ax.get_title()
            colours = {bar.get_width() > 0: bar.get_facecolor() for bar in ax.containers[0]}
            assert len(set(colours.values())) == len(colours)
        assert display.figure_ is display.ax_[0].figure

    def test_images(self):
        X, y = load_digits(return_X_y=True)
        model = RBFClassifier(100, random_state=0).fit(X[:500], y[:500])
        display = ExplanationDisplay.from_estimator(model, X[500:502], n=3, image_shape=(8, 8))
        found = model.explain(X[500:502], 3)
        assert display.ax_.shape == (2, 4)
        for i in range(2):
            shown = [ax.images[0].get_array() for ax in display.ax_[i]]
            np.testing.assert_array_equal(shown[0], X[500 + i].reshape(8, 8))
            for k, row in enumerate(found.support[i]):
                np.testing.assert_array_equal(shown[k + 1], X[row].reshape(8, 8))
                assert display.ax_[i, k + 1].get_title().startswith(f"{y[row]}\n")

    def test_pipeline(self):
        """Steps before the network are applied to the rows."""
        model = make_pipeline(StandardScaler(), RBFRegressor(20, random_state=0))
        model.fit(IRIS[:, :3], IRIS[:, 3])
        display = ExplanationDisplay.from_estimator(model, IRIS[:1, :3])
        answer = model.predict(IRIS[:1, :3])[0]
        assert display.ax_[0].get_title() == f"predicted {answer:.3g}"
        assert display.explanation.scores[0] == pytest.approx(answer)

    def test_of_a_given_layer_units_have_numbers(self, flowers):
        model = RBFClassifier(layer=FrozenEstimator(flowers)).fit(IRIS, WORDS)
        display = ExplanationDisplay.from_estimator(model, IRIS[:1], n=1)
        assert texts(display.ax_[0].get_yticklabels())[0].startswith("unit ")

    def test_axes_of_the_user(self, flowers):
        figure, axes = plt.subplots(1, 2)
        display = ExplanationDisplay.from_estimator(flowers, IRIS[:2], ax=axes)
        assert display.figure_ is figure
        with pytest.raises(ValueError, match=r"ax holds 2 axes, and \(3,\) are needed"):
            ExplanationDisplay.from_estimator(flowers, IRIS[:3], ax=axes)

    def test_bad_input(self, flowers):
        with pytest.raises(TypeError, match="explains nothing"):
            ExplanationDisplay.from_estimator(TanhClassifier(), IRIS)
        with pytest.raises(NotFittedError):
            ExplanationDisplay.from_estimator(RBFClassifier(), IRIS)
        with pytest.raises(ValueError, match=r"image_shape=\(8, 8\) is of 64 numbers"):
            ExplanationDisplay.from_estimator(flowers, IRIS[:1], image_shape=(8, 8))


class TestFeatureWeights:
    WEIGHTS = (0.5, 1.0, 0.0, 0.75)

    def model(self, X=IRIS):
        return RBFClassifier(10, feature_weights=self.WEIGHTS, random_state=0).fit(X, SPECIES)

    def drawn(self, display):
        display.figure_.canvas.draw()
        names = texts(display.ax_.get_yticklabels())
        return dict(zip(names, [bar.get_width() for bar in display.bars_], strict=True))

    def test_bars_from_the_largest(self):
        drawn = self.drawn(FeatureWeightsDisplay.from_estimator(self.model()))
        assert list(drawn) == ["x2", "x0", "x3", "x1"]  # from below
        assert drawn == {"x0": 0.5, "x1": 1.0, "x2": 0.0, "x3": 0.75}

    def test_names(self):
        names = ["a", "b", "c", "d"]
        model = self.model(pd.DataFrame(IRIS, columns=names))
        display = FeatureWeightsDisplay.from_estimator(model, max_features=2)
        assert self.drawn(display) == {"d": 0.75, "b": 1.0}
        assert display.ax_.get_xlabel() == "feature weight (2 smaller ones not shown)"
        given = FeatureWeightsDisplay.from_estimator(model, feature_names="wxyz", color="red")
        assert list(self.drawn(given)) == ["y", "w", "z", "x"]

    def test_of_a_linear_map(self):
        """A feature counts as much as its row is long."""
        A = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 2.0]])
        model = TanhProjector(5, feature_weights=A).fit(IRIS)
        drawn = self.drawn(FeatureWeightsDisplay.from_estimator(model))
        assert drawn == {"x0": 5.0, "x1": 0.0, "x2": 1.0, "x3": 2.0}

    def test_a_combination_of_a_linear_map(self):
        """As long as it counts, from the largest number down, which is above 0."""
        U = np.linalg.qr([[1.0, 0], [-2, 0], [0, 1], [0, 3]])[0]
        model = RBFClassifier(5, feature_weights=U * [2, 5], alpha=1.0).fit(IRIS, SPECIES)
        for number, expected in ((0, [0, 0, 1, 3]), (1, [-1, 2, 0, 0])):
            display = FeatureWeightsDisplay.from_estimator(model, combination=number)
            expected = np.array(expected) / np.linalg.norm(expected) * (5, 2)[number]
            np.testing.assert_allclose(display.weights, expected, atol=1e-12)
        assert list(self.drawn(display))[2:] == ["x0", "x1"]
        for wrong, of in ((2, model), (-1, model), (0.0, model), (True, model), (0, self.model())):
            with pytest.raises(ValueError, match=r"combination=.* RBFClassifier has"):
                FeatureWeightsDisplay.from_estimator(of, combination=wrong)

    def test_names_of_a_pipeline(self):
        table = pd.DataFrame({"size": IRIS[:, 0], "kind": WORDS})
        network = RBFClassifier(10, feature_weights=[0.1, 0.2, 0.3, 0.4], random_state=0)
        model = make_tabular_pipeline(network).fit(table, SPECIES)
        drawn = self.drawn(FeatureWeightsDisplay.from_estimator(model))
        kinds = [f"kind_{word}" for word in ("setosa", "versicolor", "virginica")]
        assert list(drawn) == ["size", *kinds]

    def test_bad_input(self):
        with pytest.raises(NotFittedError):
            FeatureWeightsDisplay.from_estimator(RBFClassifier())
        plain = RBFClassifier(10, feature_weights=None).fit(IRIS, SPECIES)
        for model in (plain, TanhProjector(5).fit(IRIS)):
            with pytest.raises(ValueError, match="has no feature weights"):
                FeatureWeightsDisplay.from_estimator(model)
        with pytest.raises(ValueError, match="feature_names has 1 names, and the network has 4"):
            FeatureWeightsDisplay.from_estimator(self.model(), feature_names=["a"])
        with pytest.raises(ValueError, match="max_features=0"):
            FeatureWeightsDisplay.from_estimator(self.model(), max_features=0)


GRID = {"n_hidden": [5, 20, 10], "alpha": [0.1, 1e6]}


@pytest.fixture(scope="module")
def search():
    return HiddenSizeSearchCV(TanhClassifier(scale=1.0, random_state=0), GRID, cv=3).fit(
        IRIS, SPECIES
    )


class TestSizes:
    def scores(self, search, alpha, size, what="mean"):
        row = search.cv_results_["params"].index({"n_hidden": size, "alpha": alpha})
        return search.cv_results_[f"{what}_test_score"][row]

    def test_a_line_for_each_value(self, search):
        display = HiddenSizeDisplay.from_estimator(search, by="alpha")
        for line, alpha in zip(display.lines_, GRID["alpha"], strict=True):
            assert line.get_label() == f"alpha = {alpha}"
            np.testing.assert_array_equal(line.get_xdata(), [5, 10, 20])
            expected = [self.scores(search, alpha, size) for size in (5, 10, 20)]
            np.testing.assert_array_equal(line.get_ydata(), expected)
        spread = [self.scores(search, 1e6, size, "std") for size in (5, 10, 20)]
        np.testing.assert_array_equal(display.spreads[1], spread)
        assert display.ax_.get_ylabel().startswith("accuracy")
        assert display.ax_.get_legend() is not None

    def test_the_best_of_each_size(self, search):
        """alpha=1e6 is never better."""
        (line,) = HiddenSizeDisplay.from_estimator(search).lines_
        best = [max(self.scores(search, a, size) for a in GRID["alpha"]) for size in (5, 10, 20)]
        np.testing.assert_array_equal(line.get_ydata(), best)
        where = {"alpha": 1e6}
        (line,) = HiddenSizeDisplay.from_estimator(search, where=where).lines_
        np.testing.assert_array_equal(
            line.get_ydata(), [self.scores(search, 1e6, size) for size in (5, 10, 20)]
        )

    def test_any_search_and_pipeline(self):
        """Also where a step has units; on the axes and with the style of the user."""
        model = make_pipeline(StandardScaler(), TanhProjector(random_state=0), TanhClassifier(10))
        grid = {"tanhprojector__n_components": [3, 6], "tanhclassifier__alpha": [1.0, 2.0]}
        found = GridSearchCV(model, grid, cv=2, scoring="f1_macro").fit(IRIS, SPECIES)
        ax = plt.figure().subplots()
        display = HiddenSizeDisplay.from_estimator(
            found, by="alpha", ax=ax, line_kw={"linestyle": ":"}, fill_kw={"alpha": 0.5}
        )
        assert display.ax_ is ax
        assert display.ax_.get_ylabel().startswith("f1_macro")
        assert [line.get_linestyle() for line in display.lines_] == [":", ":"]
        assert [line.get_label() for line in display.lines_] == ["alpha = 1.0", "alpha = 2.0"]

    def test_several_scores(self):
        model = TanhClassifier(scale=1.0, alpha=1.0, random_state=0)
        scoring = ["accuracy", "f1_macro"]
        found = HiddenSizeSearchCV(
            model, {"n_hidden": [5, 10]}, cv=2, scoring=scoring, refit="f1_macro"
        ).fit(IRIS, SPECIES)
        for name, given in (("f1_macro", None), ("accuracy", "accuracy")):
            (line,) = HiddenSizeDisplay.from_estimator(found, scoring=given).lines_
            np.testing.assert_array_equal(line.get_ydata(), found.cv_results_[f"mean_test_{name}"])
        with pytest.raises(ValueError, match=r"scoring='loss' must be one of \['accuracy'"):
            HiddenSizeDisplay.from_estimator(found, scoring="loss")

    def test_bad_input(self, search):
        with pytest.raises(NotFittedError):
            HiddenSizeDisplay.from_estimator(HiddenSizeSearchCV(TanhClassifier(), GRID))
        with pytest.raises(ValueError, match=r"'radius' is none of the parameters.*'n_hidden'"):
            HiddenSizeDisplay.from_estimator(search, by="radius")
        with pytest.raises(ValueError, match="leaves no candidate"):
            HiddenSizeDisplay.from_estimator(search, where={"alpha": 3.0})
        other = GridSearchCV(TanhClassifier(5), {"alpha": [1.0, 2.0]}, cv=2).fit(IRIS, SPECIES)
        with pytest.raises(ValueError, match="'n_hidden' or 'n_components' is none"):
            HiddenSizeDisplay.from_estimator(other)
        grid = {"n_hidden": [None, 5], "alpha": [1.0]}
        found = GridSearchCV(RBFClassifier(kernel="triangular"), grid, cv=2).fit(IRIS, SPECIES)
        with pytest.raises(ValueError, match="n_hidden=None has no place"):
            HiddenSizeDisplay.from_estimator(found)


def test_matplotlib_is_not_imported_before_something_is_drawn(monkeypatch):
    """The room can be imported again where there is none."""
    room = "sklearn_fsvc.inspection"
    monkeypatch.setattr(room, sys.modules[room])  # to be there again after the test
    for name in [name for name in sys.modules if name.startswith(room)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    importlib.import_module(room)


def test_without_matplotlib(monkeypatch, flowers):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        ExplanationDisplay.from_estimator(flowers, IRIS[:1])
