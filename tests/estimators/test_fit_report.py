"""The lines of ``verbose=1``: one for each decision of a fit, and nothing else in short fits."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.preprocessing import StandardScaler

from sklearn_fsvc import (
    HiddenSizeSearchCV,
    PatchClassifier,
    RBFClassifier,
    RBFProjector,
    StackedClassifier,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data import job

DIGITS, LABELS = (each[:600] for each in load_digits(return_X_y=True))
X, Y = make_friedman1(200, random_state=0)
RBF = RBFClassifier(20, kernel="triangular", feature_weights=None)
TANH = TanhClassifier(20, feature_weights=None)


@pytest.fixture
def lines_of(capsys, monkeypatch):
    """Return the lines that a call prints, without their seconds, whatever time it takes."""
    monkeypatch.setattr(job, "_PAUSE", np.inf)  # before the progress of a pass is printed

    def run(call, *args):
        capsys.readouterr()
        call(*args)
        printed = capsys.readouterr().out.splitlines()
        for line in printed:
            assert re.search(r"; [\d.e+-]+ s$", line), line
        return [line.rpartition("; ")[0] for line in printed]

    return run


def test_the_choices_of_rbf_units(lines_of):
    model = RBFClassifier(40, random_state=0, verbose=1)
    layer, readout = lines_of(model.fit, DIGITS[:200], LABELS[:200])
    results = pd.DataFrame(model.search_results_)
    n_layers = int(layer.split()[-3])
    layer_results, readout_results = results[:n_layers], results[n_layers:]
    is_weighted = model.feature_weights_ is not None
    chosen = layer_results.query("kernel == @model.kernel_ and weighted == @is_weighted")
    chosen = chosen[np.isclose(chosen["radius"], model.radius_)]
    assert layer == (
        f"[RBFClassifier fit] hidden layer: 40 units ({model.metric_} {model.kernel_}), width "
        f"{model.radius_:.4g}{', feature weights' * is_weighted}; validation error "
        f"{chosen['error'].min():.4g}, {n_layers} readouts evaluated"
    )
    (error,) = readout_results["error"][readout_results["alpha"] == model.alpha_]
    assert error < 1.02 * readout_results["error"].min()
    assert readout == (
        f"[RBFClassifier fit] readout: ridge, alpha {model.alpha_:.4g}; leave-one-out error "
        f"{error:.4g}, {len(readout_results)} penalties"
    )
    assert lines_of(clone(model).set_params(verbose=0).fit, DIGITS[:200], LABELS[:200]) == []


@pytest.mark.parametrize(
    ("model", "options", "kind"),
    [
        (RBF, {}, "leave-one-out"),
        (RBF, {"groups": np.arange(600) // 6}, "validation"),
        (clone(RBF).set_params(n_hidden=600), {}, "leave-one-out"),  # by the dual equations
        (TANH, {}, "validation"),
        (StackedClassifier([("one", TANH)]), {}, "leave-one-out"),
    ],
    ids=["RBF", "groups", "dual", "tanh", "ensemble"],
)  # fmt: skip
def test_the_error_that_selects_the_penalty_is_named(capsys, model, options, kind):
    model = clone(model).set_params(random_state=0, verbose=1)
    model.fit(DIGITS, LABELS, **options)
    lines = [line for line in capsys.readouterr().out.splitlines() if "readout: ridge" in line]
    assert [re.findall(r"; (\S+) error", line) for line in lines] == [[kind]]


@pytest.mark.parametrize(("alpha", "noun"), [("loo", "penalties"), ([0.1], "penalty")])
def test_leave_one_out_errors(lines_of, alpha, noun):
    A = np.eye(X.shape[1])
    model = TanhRegressor(30, alpha=alpha, feature_weights=A, random_state=0, verbose=1)
    layer, readout = lines_of(model.fit, X, Y)
    assert layer == (
        "[TanhRegressor fit] hidden layer: 30 units (tanh), linear map of the features"
    )
    assert readout == (
        f"[TanhRegressor fit] readout: ridge, alpha {model.alpha_:.4g}; leave-one-out error "
        f"{model.loo_errors_.min():.4g}, {len(model.alphas_)} {noun}"
    )


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            TanhClassifier(30, alpha=2.0, feature_weights=None),
            ["hidden layer: 30 units (tanh)", "readout: ridge, alpha 2"],
        ),
        (
            PatchClassifier(5, image_shape=(8, 8), alpha=2.0),
            ["hidden layer: 5 units (linear of patches), 160 columns", "readout: ridge, alpha 2"],
        ),
        (
            RBFClassifier(20, radius=50.0, kernel="triangular", readout="lms"),
            ["hidden layer: 20 units (manhattan triangular), width 50", "readout: lms"],
        ),
        (
            RBFClassifier(
                20, radius=50.0, kernel="triangular", feature_weights=np.ones(64),
                readout="softmax", alpha=1.0,
            ),
            [
                "hidden layer: 20 units (manhattan triangular), width 50, feature weights",
                "readout: softmax, alpha 1",
            ],
        ),
        (
            RBFProjector(20, radius=50.0),
            ["hidden layer: 20 units (manhattan triangular), width 50"],
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_given_values_are_printed_without_an_error(lines_of, model, expected):
    lines = lines_of(clone(model).set_params(random_state=0, verbose=1).fit, DIGITS, LABELS)
    assert lines == [f"[{type(model).__name__} fit] {text}" for text in expected]


def test_partial_fit_prints_the_layer_once_and_each_search(lines_of):
    model = TanhClassifier(20, feature_weights=None, random_state=0, verbose=1)
    # A layer is chosen from 2000 samples.
    first, second = np.arange(2000) % len(DIGITS), slice(300, 600)

    def add(rows):
        model.partial_fit(DIGITS[rows], LABELS[rows], classes=range(10)).predict(DIGITS)

    layer, readout = lines_of(add, first)
    assert layer == "[TanhClassifier partial_fit] hidden layer: 20 units (tanh)"
    pattern = (
        r"\[TanhClassifier solve\] readout: ridge, alpha \S+; validation error \S+, \d+ penalties"
    )
    assert re.fullmatch(pattern, readout)
    (readout,) = lines_of(add, second)
    assert re.fullmatch(pattern, readout)
    assert f"alpha {model.alpha_:.4g};" in readout
    model.set_params(alpha=0.5)
    assert lines_of(model.predict, DIGITS) == []  # nothing is chosen


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, "leave-one-out"),
        ({"groups": np.arange(569) // 2}, "out-of-fold"),
        ({"X_val": slice(150), "y_val": slice(150)}, "validation"),
    ],
)
def test_the_networks_of_an_ensemble(capsys, given, kind):
    X, y = load_breast_cancer(return_X_y=True)
    networks = [
        ("good", TanhClassifier(100, feature_weights=None)),
        ("noise", TanhClassifier(2, feature_weights=None)),
    ]
    model = StackedClassifier(networks, random_state=0, verbose=1)
    X = StandardScaler().fit_transform(X)
    if "X_val" in given:
        given = {"X_val": X[given["X_val"]], "y_val": y[given["y_val"]]}
    model.fit(X, y, **given)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "fitting" in line] == [
        "[StackedClassifier fit] fitting good, network 1 of 2",
        "[StackedClassifier fit] fitting noise, network 2 of 2",
    ]
    assert sum(line.startswith("[TanhClassifier fit] readout: ridge") for line in lines) == 2
    assert list(model.named_estimators_) == ["good"]
    for line, text, error in zip(
        lines[-2:], ("good: weight 1", "noise: not used"), model.loo_errors_, strict=True
    ):
        start = re.escape(f"[StackedClassifier fit] {text}; {kind} error {error:.4g}; ")
        assert re.fullmatch(start + r"[\d.e+-]+ s", line)


@pytest.mark.parametrize("is_used", [True, False])
def test_the_final_network_of_an_ensemble(capsys, is_used):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.abs(X).max(axis=1) > 1.2 if is_used else rng.integers(0, 2, 900)
    base = [("small", TanhClassifier(4, feature_weights=None))]
    final = TanhClassifier(200, feature_weights=None, alpha=1.0)
    model = StackedClassifier(base, final_estimator=final, random_state=0, verbose=1).fit(X, y)
    *_, network, last = capsys.readouterr().out.splitlines()
    assert network.startswith("[StackedClassifier fit] small: weight 1; ")
    assert (model.final_estimator_ is not None) == is_used
    text = f"weight {model.final_weight_:.2g}" if is_used else "not used, gains too little"
    assert last.startswith(f"[StackedClassifier fit] final network: {text}; ")


def test_the_best_candidate_of_a_search(capsys):
    grid = {"n_hidden": [5, 40], "alpha": [1.0]}
    network = TanhClassifier(feature_weights=None, random_state=0)
    search = HiddenSizeSearchCV(network, grid, cv=2, verbose=1)
    search.fit(DIGITS, LABELS)
    last = capsys.readouterr().out.splitlines()[-1]
    start = (
        f"[HiddenSizeSearchCV] best: alpha=1.0, n_hidden=40, with score {search.best_score_:.4g}; "
    )
    assert re.fullmatch(re.escape(start) + r"[\d.e+-]+ s", last)
    several = clone(search).set_params(scoring=["accuracy", "f1_macro"], refit=False)
    several.fit(DIGITS, LABELS)
    assert "best" not in capsys.readouterr().out
