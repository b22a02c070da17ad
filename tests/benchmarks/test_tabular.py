"""The benchmark of tabular data: datasets, splits, scores, stored results and summaries."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmark import benchmark


@pytest.fixture
def bench():
    """Return a function that imports a module of the benchmark by the end of its name."""
    return lambda name: benchmark(f"_tabular_{name}")


@pytest.fixture
def folder(tmp_path, rng):
    """Three datasets: of mixed features, with a given split, and for regression."""
    n = 200
    numbers = rng.standard_normal((n, 2)).astype(np.float32)
    y = (numbers[:, 0] > 0).astype(np.int32)
    numbers[3, 1] = np.nan
    y[7] = 5  # a class of one row
    codes = rng.integers(0, 3, (n, 2)).astype(np.int32)
    codes[4, 1] = -1
    empty = {"X": np.empty((n, 0), np.float32), "X_cat": np.empty((n, 0), np.int32)}
    rows = rng.permutation(n)
    tables = {
        "both": {"X": numbers, "X_cat": codes, "y": y, "task": "classification"},
        "given": empty | {
            "X_cat": codes, "y": y, "task": "classification", "train": rows[:150],
            "test": rows[150:],
        },
        "numbers": empty | {"X": numbers, "y": numbers[:, 0], "task": "regression"},
    }  # fmt: skip
    (tmp_path / "tabular").mkdir()
    for name, arrays in tables.items():
        np.savez(tmp_path / "tabular" / f"{name}.npz", **arrays)
    return tmp_path


def read(bench, folder):
    data = bench("data")
    return {path.stem: data.read_table(path) for path in data.find_tables(folder)}


def test_reading_of_datasets(bench, folder):
    tables = read(bench, folder)
    X = tables["both"].X
    assert [str(t) for t in X.dtypes] == ["float32", "float32", "category", "category"]
    assert X.isna().sum().sum() == 2
    assert X.x1.isna()[3]
    assert X.c1.isna()[4]
    with np.load(folder / "tabular/both.npz") as file:
        np.testing.assert_array_equal(X.c0, file["X_cat"][:, 0])
    assert list(tables["given"].X) == ["c0", "c1"]
    assert list(tables["numbers"].X) == ["x0", "x1"]
    assert bench("data").find_tables(folder / "tabular", ["given"])[0].stem == "given"
    with pytest.raises(SystemExit, match="no other in"):
        bench("data").find_tables(folder, ["other"])


def test_splits_are_disjoint_and_stratified(bench, folder):
    table = read(bench, folder)["both"]
    pairs = bench("data").splits(table, "large")
    assert len(pairs) == 3
    for train, test in pairs:
        assert sorted([*train, *test]) == list(range(200))
        for label in (0, 1):
            assert abs((table.y[train] == label).sum() - 0.75 * (table.y == label).sum()) <= 1
    assert not np.array_equal(pairs[0][0], pairs[1][0])


def test_given_splits_are_used(bench, folder, monkeypatch):
    data, table = bench("data"), read(bench, folder)["given"]
    ((train, test),) = data.splits(table, "large")
    np.testing.assert_array_equal(train, table.source[0])
    np.testing.assert_array_equal(test, table.source[1])
    assert len(data.splits(table, "small")) == 1  # three splits would be the same
    monkeypatch.setitem(data.TRACKS, "small", 60)
    pairs = data.splits(table, "small")
    assert [len(train) for train, _ in pairs] == [60] * 3
    assert all(set(train) < set(table.source[0]) for train, _ in pairs)
    assert len({tuple(train) for train, _ in pairs}) == 3
    assert all(np.array_equal(test, table.source[1]) for _, test in pairs)


def test_small_track_has_at_most_4000_rows(bench):
    data = bench("data")
    y = np.repeat([0, 1, 2], [6000, 3999, 1])
    table = data.Table("many", "classification", None, y)
    for train, test in data.splits(table, "small"):
        assert len(train) == len(set(train)) == 4000
        assert not set(train) & set(test)
        assert abs((y[train] == 0).sum() - 2400) <= 1


def two_methods(bench):
    """A tree with a tuning space, and a classifier with constant probabilities."""
    Method = bench("methods").Method

    def tree(kind, device, **params):
        return make_pipeline(bench("methods")._ordinal(), kind(random_state=0, **params))

    def dummy(kind, device):
        return kind()

    trees = (partial(tree, kind) for kind in (DecisionTreeClassifier, DecisionTreeRegressor))
    dummies = (partial(dummy, kind) for kind in (DummyClassifier, DummyRegressor))
    space = {"max_depth": [1, 2, 3], "min_samples_leaf": list(range(1, 11))}
    return {
        "forest": Method("RandomForest", *trees, space),
        "linear": Method("logistic regression", *dummies),
    }


def test_scores(bench, folder):
    """Samples of a class that is not in the training data are errors, with probability 0."""
    table = read(bench, folder)["both"]
    train, test = np.arange(10, 150), np.array([7, *range(150, 159)])
    scores = bench("fit").fit_and_score(DummyClassifier(), table, train, test)
    share = (table.y[train] == 1).mean()
    prior = np.where(table.y[test] == 1, share, 1 - share)
    prior[0] = np.finfo(np.float32).eps
    assert scores["log_loss"] == pytest.approx(-np.log(prior).mean(), rel=1e-3)
    assert scores["error"] == np.mean(table.y[test] != (share > 0.5))
    with_a_gap = replace(table, y=3 + 2 * table.y)
    again = bench("fit").fit_and_score(DummyClassifier(), with_a_gap, train, test)
    assert again["error"] == scores["error"]
    assert "auc" not in scores
    model = make_pipeline(bench("methods")._ordinal(), DecisionTreeClassifier(random_state=0))
    p = model.fit(table.X.iloc[train], table.y[train]).predict_proba(table.X.iloc[test[1:]])[:, 1]
    scores = bench("fit").fit_and_score(clone(model), table, train, test[1:])
    is_second = table.y[test[1:]] == table.y[train].max()
    above = [np.sign(a - b) / 2 + 0.5 for a in p[is_second] for b in p[~is_second]]
    assert scores["auc"] == pytest.approx(np.mean(above))


def test_scores_of_regression(bench, folder):
    table = read(bench, folder)["numbers"]
    train, test = np.arange(150), np.arange(150, 200)
    model = bench("methods").METHODS["linear"].factory("regression")("cpu", penalty=300.0)
    scores = bench("fit").fit_and_score(model, table, train, test)
    r2 = r2_score(table.y[test], model.predict(table.X.iloc[test]))
    assert 0.1 < r2 < 0.9
    assert [scores["r2"], 1 - scores["error"]] == pytest.approx([r2, r2])
    assert "log_loss" not in scores


@pytest.mark.parametrize(
    ("name", "alpha"), [("rbf", "auto"), ("rbf-best", "loo"), ("tanh", "auto")]
)
def test_our_methods_for_both_tasks(bench, folder, name, alpha):
    """On numerical and categorical features with missing values."""
    classes = read(bench, folder)["both"]
    y = classes.X.x0.to_numpy() * (1 + classes.X.c0.cat.codes.to_numpy())
    numbers = replace(classes, task="regression", y=y)
    for table in (classes, numbers):
        model = bench("methods").METHODS[name].factory(table.task)("cpu", n_hidden=60)
        scores = bench("fit").fit_and_score(model, table, np.arange(150), np.arange(150, 200))
        assert is_regressor(model) == (table.task == "regression")
        assert model[-1].alpha == alpha
        assert scores["error"] < 0.2


@pytest.mark.exhaustive
def test_results_are_not_measured_twice(bench, folder, tmp_path, capsys):
    methods, runs = two_methods(bench), bench("run")
    paths, file = bench("data").find_tables(folder), tmp_path / "results.jsonl"
    options = {"track": "small", "device": "cpu", "tuned": True}
    assert not runs.run(paths, methods, file, hours=1e-9, **options)
    assert not file.exists()
    for i in (1, 2):
        assert runs.run(paths, methods, file, part=(i, 2), **options)
    text = file.read_text()
    records = [json.loads(line) for line in text.splitlines()]
    # Seven splits of three datasets; default and tuned trees, and the dummy.
    assert len(records) == 7 * 3
    assert not any("failure" in record for record in records)
    assert {r["variant"] for r in records if "tuning_s" in r and r["params"]} == {"tuned"}
    capsys.readouterr()
    assert runs.run(paths, methods, file, **options)
    assert not capsys.readouterr().out
    assert file.read_text() == text


def test_methods_without_a_regressor_skip_regression(bench, folder, tmp_path):
    runs, file = bench("run"), tmp_path / "results.jsonl"
    only = bench("methods").Method("prior", lambda device: DummyClassifier(), None)
    options = {"track": "small", "device": "cpu", "tuned": False}
    runs.run(bench("data").find_tables(folder), {"linear": only}, file, **options)
    assert {record["task"] for record in runs.read_results(file)} == {"classification"}


def test_failures_are_stored_and_retried(bench, folder, tmp_path):
    Method, runs = bench("methods").Method, bench("run")
    file, paths = tmp_path / "results.jsonl", bench("data").find_tables(folder, ["given"])
    options = {"track": "small", "device": "cpu", "tuned": False}
    broken = Method("logistic regression", lambda device: DummyClassifier(strategy="none"), None)
    runs.run(paths, {"linear": broken}, file, **options)
    (record,) = runs.read_results(file)
    assert "InvalidParameterError" in record["failure"]
    text = bench("summary").summary(bench("summary").compared([record]))
    assert "1 fits failed" in text
    assert "InvalidParameterError" in text
    runs.run(paths, two_methods(bench), file, **options)
    assert not any("failure" in record for record in runs.read_results(file))


def synthetic_records():
    """Two splits of five sets by LightGBM and ours: electricity leaks, c lacks a split."""
    errors = {
        ("a", "lightgbm"): (0.1, 0.3), ("a", "rbf"): (0.1, 0.2),
        ("b", "lightgbm"): (0.4, 0.4), ("b", "rbf"): (0.5, 0.5),
        ("d", "lightgbm"): (0.2, 0.2), ("d", "rbf"): (0.1, 0.1),
        ("electricity", "lightgbm"): (0.5, 0.5), ("electricity", "rbf"): (0.0, 0.0),
        ("c", "lightgbm"): (0.0, 0.0), ("c", "rbf"): (0.0,),
    }  # fmt: skip
    return [
        {
            "set": name, "split": split, "method": method, "variant": "default",
            "task": "classification", "n_train": 10, "error": error,
            "fit_s": 4.0 if name == "a" else 1.0, "predict_s": 1.0,
        }
        | ({"log_loss": error} if method == "lightgbm" else {})
        | ({"auc": 1 - error} if name == "a" else {})
        for (name, method), values in errors.items()
        for split, error in enumerate(values)
    ]  # fmt: skip


def test_summary_against_hand_computation(bench):
    results = bench("summary").compared(synthetic_records())
    table = bench("summary").standing(results)
    assert list(table.index) == ["LightGBM", "RBFClassifier"]
    assert list(table.score) == pytest.approx([(80 + 60 + 80) / 3, (85 + 50 + 90) / 3])
    assert list(table["rank"]) == pytest.approx([5 / 3, 4 / 3])
    assert list(table["won-lost"]) == ["-", "2-1"]
    assert list(table["fit, s (geometric)"]) == pytest.approx([16 ** (1 / 6)] * 2)
    assert list(table["fit, s (median)"]) == pytest.approx([1, 1])
    assert table["log-loss"].iloc[0] == pytest.approx(0.8 / 3)
    assert np.isnan(table["log-loss"].iloc[1])
    assert table["its rank"].iloc[0] == 1
    assert np.isnan(table["its rank"].iloc[1])
    assert list(table["AUC, %"]) == pytest.approx([80, 85])
    text = bench("summary").summary(results)
    assert "means over 3 of 5 datasets" in text
    assert "Not in the means: c, which lacks RBFClassifier" in text
    assert "above LightGBM's defaults on 3 of 4 datasets, below on 1" in text
    assert "Most above: electricity +50.00, d +10.00, a +5.00." in text
    assert "Most below: b -10.00." in text


def test_time_of_tuned_methods_includes_the_tuning(bench):
    tuned = [r | {"variant": "tuned", "tuning_s": 15.0} for r in synthetic_records()[:4]]
    results = bench("summary").compared(synthetic_records()[:4] + tuned)
    table = bench("summary").standing(results)
    assert table["fit, s (median)"]["LightGBM, tuned"] == 19
    assert table["fit, s (median)"]["LightGBM"] == 4
    only = bench("summary").compared(synthetic_records()[:4] + tuned, ["rbf"], tuned=False)
    assert list(bench("summary").standing(only).index) == ["RBFClassifier"]


def of_both_tasks():
    """The classification datasets, and a regression dataset with results of SVR."""
    errors = {"lightgbm": 0.3, "rbf": 0.25, "svc": 0.4}
    first = synthetic_records()[2] | {"set": "r", "task": "regression"}
    return synthetic_records() + [
        first | {"method": name, "error": e} for name, e in errors.items()
    ]


def test_summary_separates_the_tasks(bench):
    results = bench("summary").compared(of_both_tasks())
    classification, regression = (
        bench("summary").summary(results).split("R^2, %: means over 1 of 1 datasets")
    )
    assert "accuracy, %: means over 3 of 5 datasets" in classification
    assert "SV" not in classification
    assert "Classifier" not in regression
    assert ("log-loss" in classification, "log-loss" in regression) == (True, False)
    table = bench("summary").standing(results[results.task == "regression"])
    assert list(table.index) == ["LightGBM", "SVR", "RBFRegressor"]
    assert list(table.score) == pytest.approx([70, 60, 75])


def test_pareto_front(bench):
    errors = {"slow": (9.0, 20.0), "fast": (1.0, 30.0), "beaten": (2.0, 30.0), "best": (9.0, 10.0)}
    assert bench("picture").front(errors) == ["fast", "best"]


def test_figure_has_a_panel_per_task(bench, tmp_path):
    heights, widths = set(), []
    for records in (synthetic_records(), of_both_tasks()):
        bench("picture").draw(bench("summary").compared(records), tmp_path / "x.png", "small")
        height, width, _ = imread(tmp_path / "x.png").shape
        heights.add(height)
        widths.append(width)
    assert len(heights) == 1
    assert widths[1] == 2 * widths[0]


def test_the_legend_of_the_figure_explains_the_colours(bench):
    axes = Figure().subplots()
    points = {"RBFClassifier": (1.0, 7.0), "LightGBM": (0.1, 8.0)}
    bench("picture")._panel(axes.figure, axes, points, {"RBFClassifier"})
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["Pareto front", "this package", "others"]
