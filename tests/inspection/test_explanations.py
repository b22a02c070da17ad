"""ExplanationDisplay plots the training samples and contributions of `explain`."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    make_tabular_pipeline,
)
from sklearn_fsvc.inspection import ExplanationDisplay, explain

plt = pytest.importorskip("matplotlib.pyplot")
IRIS, CODES = load_iris(return_X_y=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[CODES]


def texts(labels):
    return [label.get_text() for label in labels]


def test_bars_add_up_to_the_score(iris_model):
    """From the top: training samples, the other units and the intercept."""
    X = IRIS[[0, 75]]
    display = ExplanationDisplay.from_estimator(iris_model, X, n=3)
    explanation = iris_model.explain(X, 3)
    assert display.ax_.shape == (2,)
    for i, ax in enumerate(display.ax_):
        ax.figure.canvas.draw()
        lengths = {bar.get_y(): bar.get_width() for bar in ax.containers[0]}
        lengths = [lengths[y] for y in sorted(lengths, reverse=True)]
        expected = [*explanation.contributions[i], explanation.rest[i], explanation.intercept[i]]
        np.testing.assert_allclose(lengths, expected)
        names = [f"sample {row}: {SPECIES[row]}" for row in explanation.support[i]]
        assert texts(ax.get_yticklabels()) == [*names, "all other units", "intercept"]
        assert SPECIES[[0, 75][i]] in ax.get_title()
        assert f"{explanation.shares[i].sum():.0%} shown" in ax.get_title()
        colours = {bar.get_width() > 0: bar.get_facecolor() for bar in ax.containers[0]}
        assert len(set(colours.values())) == len(colours)
    assert display.figure_ is display.ax_[0].figure


def test_images_of_the_training_samples():
    X, y = load_digits(return_X_y=True)
    model = RBFClassifier(100, feature_weights=None, alpha=0.1, random_state=0)
    model.fit(X[:500], y[:500])
    display = ExplanationDisplay.from_estimator(model, X[500:502], n=3, image_shape=(8, 8))
    explanation = model.explain(X[500:502], 3)
    assert display.ax_.shape == (2, 4)
    for i in range(2):
        shown = [ax.images[0].get_array() for ax in display.ax_[i]]
        np.testing.assert_array_equal(shown[0], X[500 + i].reshape(8, 8))
        for k, row in enumerate(explanation.support[i]):
            np.testing.assert_array_equal(shown[k + 1], X[row].reshape(8, 8))
            assert display.ax_[i, k + 1].get_title().startswith(f"{y[row]}\n")


def test_pipeline():
    """The steps before the network transform the samples."""
    model = make_pipeline(StandardScaler(), RBFRegressor(20, random_state=0))
    model.fit(IRIS[:, :3], IRIS[:, 3])
    display = ExplanationDisplay.from_estimator(model, IRIS[:1, :3])
    prediction = model.predict(IRIS[:1, :3])[0]
    explanation = explain(model, IRIS[:1, :3])
    share = explanation.shares.sum()
    assert display.ax_[0].get_title() == f"predicted {prediction:.3g}, {share:.0%} shown"
    assert display.explanation.scores[0] == explanation.scores[0] == pytest.approx(prediction)
    own = model[-1].explain(model[:-1].transform(IRIS[:1, :3]))
    np.testing.assert_array_equal(explanation.contributions, own.contributions)


def test_tabular_pipeline():
    """A DataFrame, with the ensemble that `make_tabular_pipeline` takes by default."""
    table = pd.DataFrame({"size": IRIS[:, 0], "length": IRIS[:, 2], "kind": SPECIES})
    networks = [("rbf", RBFRegressor(20, feature_weights=None, alpha=1.0))]
    model = make_tabular_pipeline(StackedRegressor(networks, random_state=0))
    model.fit(table, IRIS[:, 3])
    explanation = explain(model, table[:4], n=3)
    np.testing.assert_allclose(explanation.scores, model.predict(table[:4]), rtol=1e-5)
    np.testing.assert_allclose(explanation.targets, IRIS[explanation.support, 3])


def test_stacked_ensemble_of_images():
    """The training samples are centres of different networks."""
    X, y = load_digits(return_X_y=True)
    networks = [(name, RBFClassifier(30, random_state=i, alpha=1.0, feature_weights=None))
                for i, name in enumerate("ab")]  # fmt: skip
    model = StackedClassifier(networks, final_estimator=None).fit(X[:200], y[:200])
    display = ExplanationDisplay.from_estimator(model, X[200:202], n=12, image_shape=(8, 8))
    explanation = model.explain(X[200:202], 12)
    for i in range(2):
        for k, row in enumerate(explanation.support[i], 1):
            image = display.ax_[i, k].images[0].get_array()
            np.testing.assert_array_equal(image, X[row].reshape(8, 8))


def test_units_of_a_pretrained_layer_are_numbered(iris_model):
    model = RBFClassifier(layer=FrozenEstimator(iris_model)).fit(IRIS, SPECIES)
    display = ExplanationDisplay.from_estimator(model, IRIS[:1], n=1)
    assert texts(display.ax_[0].get_yticklabels())[0].startswith("unit ")


def test_axes_of_the_user(iris_model):
    figure, axes = plt.subplots(1, 2)
    display = ExplanationDisplay.from_estimator(iris_model, IRIS[:2], ax=axes)
    assert display.figure_ is figure
    with pytest.raises(ValueError, match=r"ax has 2 axes, but \(3,\) are needed"):
        ExplanationDisplay.from_estimator(iris_model, IRIS[:3], ax=axes)


def test_invalid_input(iris_model):
    for function in (explain, ExplanationDisplay.from_estimator):
        with pytest.raises(TypeError, match="cannot explain predictions"):
            function(TanhClassifier(), IRIS)
    with pytest.raises(NotFittedError):
        ExplanationDisplay.from_estimator(RBFClassifier(), IRIS)
    with pytest.raises(ValueError, match=r"image_shape=\(8, 8\) has 64 values"):
        ExplanationDisplay.from_estimator(iris_model, IRIS[:1], image_shape=(8, 8))
    for shape, error in ((4, TypeError), ((2.0, 2.0), TypeError), ((-2, -2), ValueError)):
        with pytest.raises(error, match=re.escape(f"image_shape={shape!r} must be")):
            ExplanationDisplay.from_estimator(iris_model, IRIS[:1], image_shape=shape)


def test_without_matplotlib(monkeypatch, iris_model):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        ExplanationDisplay.from_estimator(iris_model, IRIS[:1])
