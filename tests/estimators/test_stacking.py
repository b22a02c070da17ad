"""Ensembles: their weights by naive leave-one-out, and their answers by those of the members."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize, nnls
from scipy.sparse import csr_array
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import naive
from allocated import MIB, peak
from composed import composed
from sklearn_fsvc import (
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    StackedClassifier,
    StackedRegressor,
    TanhClassifier,
    TanhRegressor,
)
from sklearn_fsvc._src.data.dask_blocks import open_all
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import exact_hashes
from sklearn_fsvc._src.readouts.calibration import fit_temperature
from sklearn_fsvc._src.readouts.sample import draw
from sklearn_fsvc._src.stacking.members import TrainingSet
from sklearn_fsvc._src.utils.callbacks import NO_CALLBACKS
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.parts import NumericTarget
from sourced import Tap

GIVEN = {"random_state": 0, "alpha": 0.5, "feature_weights": None}
RBF = {"kernel": "laplacian", "radius": 2.0, "selection": "random", **GIVEN}
CENTRES = {
    "check_sample_weight_equivalence_on_dense_data": "a row that is repeated is a centre twice"
}


def pair(rbf, tanh, n=25):
    """Two small members that choose nothing."""
    return [("rbf", rbf(n, **RBF)), ("tanh", tanh(n, scale=0.5, **GIVEN))]


def classifier(**params):
    return StackedClassifier(pair(RBFClassifier, TanhClassifier), random_state=0, **params)


def regressor(**params):
    return StackedRegressor(pair(RBFRegressor, TanhRegressor), random_state=0, **params)


def of_tanh(**params):
    members = [(f"tanh{n}", TanhClassifier(n, scale=0.5, **GIVEN)) for n in (20, 30)]
    return StackedClassifier(members, **params)


def some_rows(n):
    """Every third row is there twice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X = np.concatenate([X, X[::3]])
    numbers = np.abs(X[:, 0]) + np.tanh(X @ [0, 1, 1, -1]) + rng.normal(size=len(X)) / 5 + 10
    return X, np.digitize(numbers, [10.5, 11]), numbers


@pytest.fixture(scope="module")
def rows():
    return some_rows(90)


@pytest.fixture(scope="module")
def many_rows():
    """With members that are far from enough for them, so that a final network gains."""
    return some_rows(300)


def weak(ensemble):
    kinds = (
        (RBFRegressor, TanhRegressor)
        if ensemble is StackedRegressor
        else (RBFClassifier, TanhClassifier)
    )
    return ensemble(pair(*kinds, 8), random_state=0)


def of_kind(kind, X, y):
    """Classes made of three."""
    return {
        "one": np.array(["a", "b", "c"])[y], "two": y > 0,
        "several": np.column_stack([y, y > 1]),
        "labels": np.column_stack([y > 0, y > 1, X[:, 2] > 0]).astype(int),
    }[kind]  # fmt: skip


def left_out(member, X, y, Y, weight, folds=None):
    """Scores of each row by a readout trained without all rows that are equal to it.

    Or without all rows of its fold.
    """
    H, scores = naive.hidden(member.fit(X, y, weight)._parts().units.layer, X), np.empty(Y.shape)
    for i, row in enumerate(X):
        others = (row != X).any(axis=1) if folds is None else folds != folds[i]
        W, b = naive.ridge(H[others], Y[others], member.alpha, weight[others])
        scores[i] = H[i] @ W.T + b
    return scores


def all_left_out(ensemble, X, y, Y, weight):
    return np.stack([left_out(clone(m), X, y, Y, weight) for _, m in ensemble.estimators])


def two_folds(X):
    """Of the rows by their hashes: so equal ones are in the same fold."""
    hashes = exact_hashes(X)
    ranks = np.searchsorted(np.unique(hashes), hashes)
    return (2 * ranks >= len(np.unique(hashes))).astype(int)


def test_weights_of_a_regressor(rows, rng):
    """Non-negative least squares over two outputs, each in units of its deviation."""
    X, _, y = rows
    y, weight = np.column_stack([y, 1e3 * X[:, 1] * X[:, 2]]), rng.uniform(0.5, 2, len(X))
    mean = np.average(y, axis=0, weights=weight)
    Y = (y - mean) / np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))
    model = regressor().fit(X, y, weight)
    scores, root = all_left_out(model, X, y, Y, weight), np.sqrt(weight)[:, None]
    expected, _ = nnls(np.stack([(root * s).ravel() for s in scores], axis=1), (root * Y).ravel())
    assert (expected > 0.1).all()
    np.testing.assert_allclose(model.weights_, expected, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, (1 - expected.sum()) * mean, rtol=1e-6)
    # Rows that are equal are one, of their mean.
    copied = np.where(np.arange(len(X)) < 90, np.arange(len(X)), 3 * np.arange(len(X)) - 270)
    total = np.bincount(copied, weight)
    Y = np.column_stack([np.bincount(copied, weight * own) / total for own in Y.T])
    errors = [np.average(((Y - s[:90]) ** 2).sum(axis=1), weights=total) for s in scores]
    np.testing.assert_allclose(model.loo_errors_, errors, rtol=1e-6)
    assert model.loo_error_ < min(errors)


def test_weights_of_a_classifier(rows, rng):
    X, y, _ = rows
    weight = rng.uniform(0.5, 2, len(X))
    model = classifier(class_weight={0: 2.0, 1: 1.0, 2: 0.5}).fit(X, y, weight)
    weight = weight * np.array([2.0, 1.0, 0.5])[y]
    scores = all_left_out(model, X, y, np.eye(3)[y], weight)

    def log_loss(a):
        return -weight @ log_softmax(np.tensordot(a, scores, 1), axis=1)[np.arange(len(y)), y]

    expected = minimize(log_loss, [2.0, 2.0], bounds=[(0, None)] * 2, options={"ftol": 1e-14}).x
    assert (expected > 0.1 * expected.sum()).all()
    np.testing.assert_allclose(model.weights_, expected / expected.sum(), rtol=1e-3)
    share = expected / expected.sum()
    temperature = fit_temperature(np.tensordot(share, scores, 1), y, weight)
    np.testing.assert_allclose(model.temperature_, temperature, rtol=5e-3)
    np.testing.assert_allclose(1 / temperature, expected.sum(), rtol=0.02)  # of a doubt more


@pytest.mark.parametrize("kind", ["one", "two", "several", "labels"])
def test_a_classifier_adds_up_scores(rows, kind):
    X, y, _ = rows
    y = of_kind(kind, X, y)
    model = classifier().fit(X, y)
    assert list(model.named_estimators_) == ["rbf", "tanh"]
    each = [member.decision_function(X) for member in model.estimators_]
    found, first, second = model.decision_function(X), *each
    if kind == "several":
        found, first, second = map(np.column_stack, (found, first, second))
    expected = model.weights_[0] * first + model.weights_[1] * second
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert model.predict(X).shape == y.shape
    p = model.predict_proba(X)
    if kind in ("one", "two"):
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), p)
    assert model.score(X, y) == (model.predict(X) == y).reshape(len(X), -1).all(axis=1).mean()


def test_a_member_without_use_is_dropped(rows):
    X, _, y = rows
    model = regressor()
    model.estimators.append(("mean", TanhRegressor(5, alpha=1e12, feature_weights=None)))
    model.fit(X, y)
    assert list(model.named_estimators_) == ["rbf", "tanh"]
    assert len(model.estimators_) == len(model.weights_) == 2
    assert model.loo_errors_.argmax() == 2
    alone = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-6)


def with_final(model, n=40, **params):
    """An ensemble that is corrected by a small final network, if that gains enough."""
    kind = TanhRegressor if isinstance(model, StackedRegressor) else TanhClassifier
    return model.set_params(final_estimator=kind(n, scale=0.5, **GIVEN | params))


@pytest.mark.parametrize("is_weighted", [False, True])
def test_final_network_of_a_regressor(many_rows, rng, is_weighted):
    """It is trained on rows and their scores without their fold, and judged without it."""
    X, _, y = many_rows
    weight = rng.uniform(0.5, 2, len(X)) if is_weighted else np.ones(len(X))
    model = with_final(weak(StackedRegressor)).fit(X, y, weight if is_weighted else None)
    mean = np.average(y, weights=weight)
    Y = ((y - mean) / np.sqrt(np.average((y - mean) ** 2, weights=weight)))[:, None]
    folds = two_folds(X)
    given = dict(model.estimators)
    used = [left_out(clone(given[k]), X, y, Y, weight, folds) for k in model.named_estimators_]
    scores = np.tensordot(model.weights_, used, 1)
    wide = np.hstack([X, scores])
    final = clone(model.final_estimator).fit(wide, y, weight)
    second = left_out(clone(final), wide, y, Y, weight, folds)
    root = np.sqrt(weight)
    pair, _ = nnls(np.hstack([scores, second]) * root[:, None], Y[:, 0] * root)
    assert 0.05 < model.final_weight_ <= 1
    np.testing.assert_allclose(model.final_weight_, pair[1] / pair.sum(), rtol=1e-5)

    first = sum(w * m.predict(X) for w, m in zip(model.weights_, model.estimators_, strict=True))
    first += model.intercept_[0]
    seen = np.column_stack([X, (first - mean) / model.target_scale_])
    expected = (1 - model.final_weight_) * first + model.final_weight_ * final.predict(seen)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)
    added = model.contributions(X)
    assert added.shape == (len(X), len(model.weights_) + 1)
    start = (1 - model.final_weight_) * model.intercept_
    np.testing.assert_allclose(added.sum(axis=1) + start, expected, rtol=1e-8)


@pytest.mark.parametrize("kind", ["one", "two", "several", "labels"])
def test_final_network_of_a_classifier(many_rows, kind):
    X, y, _ = many_rows
    y = of_kind(kind, X, y)
    model = with_final(weak(StackedClassifier), alpha=0.1).fit(X, y)
    share, final = model.final_weight_, model.final_estimator_
    assert 0 < share <= 1

    def said(network, X):
        found = network.decision_function(X)
        return np.column_stack(found) if isinstance(found, list) else found.reshape(len(X), -1)

    each = zip(model.weights_, model.estimators_, strict=True)
    first = sum(weight * said(member, X) for weight, member in each)
    second = said(final, np.hstack([X, first]))
    np.testing.assert_allclose(said(model, X), (1 - share) * first + share * second, atol=1e-12)


def test_a_final_network_without_use_is_dropped(rows):
    X, _, y = rows
    model = with_final(regressor(), alpha=1e12).fit(X, y)
    assert (model.final_estimator_, model.final_weight_) == (None, 0)
    expected = regressor().fit(X, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-12)


def test_when_there_is_a_final_network(rows, rng):
    """By default for a table, of the default members; else where it is given."""
    X, _, y = rows
    table = np.float32(X), y
    parts, found = StackedRegressor()._stacked_parts(), {}
    for name, data in {
        "table": table, "bytes": (rng.integers(0, 255, X.shape, np.uint8), y),
        "wide": (rng.normal(size=(len(X), 501)), y), "few": (X[:40], y[:40]),
        "read": open_all(Tap(X, y), "cpu", None)[:2], "whole": (np.rint(X).astype(int), y),
    }.items():  # fmt: skip
        _, samples = parts.task.read(*data, None)
        _, final = parts.members.made(samples)
        found[name] = final is not None
    assert found == {
        "table": True, "bytes": False, "wide": False, "few": False, "read": False, "whole": True,
    }  # fmt: skip
    assert regressor().fit(*table).final_estimator_ is None
    with pytest.raises(TypeError, match="takes dense rows of an array"):
        with_final(regressor()).fit(Tap(X, y))
    with pytest.raises(TypeError, match="final_estimator=RBFClassifier"):
        regressor(final_estimator=RBFClassifier()).fit(X, y)


def test_members_that_choose_by_leave_one_out(rows):
    """They keep no sums of rows, which are met once more."""
    X, y, _ = rows
    expected = classifier().fit(X, y)
    found = classifier().set_params(rbf__alpha=[0.5], tanh__alpha=[0.5]).fit(X, y)
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=1e-6)


def test_few_rows_judge_many(rows):
    X, y, _ = rows
    whole = classifier().fit(X, y)
    model = composed(whole, weighting={"max_weight_samples": 60}).fit(X, y)
    assert (model.weights_ != whole.weights_).all()
    np.testing.assert_array_equal(model.weights_, clone(model).fit(X, y).weights_)


def test_rows_of_weight_0_are_absent(rows):
    X, _, y = rows
    weight = np.ones(len(X))
    weight[::4] = 0
    expected = regressor().set_params(estimators=pair(RBFRegressor, TanhRegressor)[1:])
    kept = clone(expected).fit(X[weight > 0], y[weight > 0])
    found = expected.fit(X, np.where(weight > 0, y, 1e6), weight)
    np.testing.assert_allclose(found.predict(X), kept.predict(X), rtol=1e-9)


def test_without_arguments(rows):
    X, y, numbers = rows
    for model, target in ((StackedClassifier(), y), (StackedRegressor(), numbers)):
        model.set_params(random_state=0).fit(X, target)
        assert model.score(X, target) > 0.6
        names = [name for name, _ in model.default_estimators()]
        assert set(model.named_estimators_) <= set(names)
        assert len(model.loo_errors_) == len(names)


def test_what_is_shared(rows):
    """A member that has its own keeps it; the estimators that were given stay as they are."""
    X, _, y = rows
    members = pair(RBFRegressor, TanhRegressor)
    members[0][1].set_params(device="blas", random_state=None)
    members[1][1].set_params(max_memory="1GB")
    model = StackedRegressor(members, random_state=3, device="jit", max_memory="2GB").fit(X, y)
    rbf, tanh = model.named_estimators_.values()
    assert (rbf.device, tanh.device, tanh.max_memory) == ("blas", "jit", "1GB")
    assert 1.8e9 < rbf.max_memory < 2e9
    assert isinstance(rbf.random_state, int)
    assert tanh.random_state == 0
    assert members[0][1].random_state is None
    assert not hasattr(members[0][1], "centers_")


def test_weights_are_learned_once(rng):
    """For all members that measure alike, tanh ones too; a linear map is of one of them alone."""
    X = rng.normal(size=(120, 6))
    y = np.abs(X[:, 0]) + X[:, 1]
    _, samples = NumericTarget.of(TanhRegressor(), uncertainty=False).read(X, y, None)
    rows = TrainingSet(samples, y, draw(Job(get_engine("cpu", 1)), samples))
    fitted, shared, learned = {}, {}, []
    for name, member in {
        "first": RBFRegressor(40), "second": RBFRegressor(30, kernel="triangular"),
        "euclidean": RBFRegressor(40, metric="euclidean"), "tanh": TanhRegressor(50),
        "map": TanhRegressor(50, feature_weights="map"),
        "none": RBFRegressor(20, feature_weights=None),
    }.items():  # fmt: skip
        known = set(shared)
        rows.fit(member.set_params(random_state=0), NO_CALLBACKS, shared)
        learned += [(name, metric) for metric in set(shared) - known]
        fitted[name] = member
    assert learned == [("first", "manhattan"), ("euclidean", "euclidean")]
    first = fitted["first"].feature_weights_
    assert first.argmax() < 2
    for name in ("second", "tanh"):
        assert fitted[name].feature_weights_ is first
    assert (fitted["euclidean"].feature_weights_ != first).any()
    assert fitted["none"].feature_weights_ is None
    assert not any("shared" in vars(member) for member in fitted.values())


def test_contributions(rows):
    X, y, numbers = rows
    model = regressor().fit(X, np.column_stack([numbers, -numbers]))
    for output in (0, 1):
        found = model.contributions(X, output).sum(axis=1) + model.intercept_[output]
        np.testing.assert_allclose(found, model.predict(X)[:, output])
    model = classifier().fit(X, y)
    found = model.contributions(X)
    np.testing.assert_allclose(found.sum(axis=1), model.decision_function(X).max(axis=1))
    two = classifier().fit(X, y > 0)
    np.testing.assert_allclose(two.contributions(X).sum(axis=1), abs(two.decision_function(X)))
    with pytest.raises(ValueError, match=r"output=1: y has 1 column"):
        model.contributions(X, 1)


def test_a_search_varies_members(rows):
    X, y, _ = rows
    grid = {"tanh__n_hidden": [5, 30], "rbf": ["drop", RBFClassifier(20, **RBF)]}
    search = GridSearchCV(classifier(), grid, cv=2, error_score="raise").fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert clone(classifier()).get_params()["tanh__n_hidden"] == 25


def test_sources(rows, tmp_path):
    """A file is read in parts, once for each answer, and answers may go into another one."""
    X, y, _ = rows
    expected = classifier().fit(X, y)
    tap = Tap(X, y)
    model = classifier().fit(tap)
    np.testing.assert_allclose(model.weights_, expected.weights_, rtol=1e-6)
    calls, out = tap.calls, np.zeros(len(X), int)
    assert model.predict(tap, out=out) is out
    assert tap.calls <= calls + 2
    np.testing.assert_array_equal(out, expected.predict(X))
    assert model.score(tap) == expected.score(X, y)
    with pytest.raises(ValueError, match="out has shape"):
        model.predict(X, out=np.zeros(3))


def test_few_rows_at_a_time(rows):
    X, y, _ = rows
    question = classifier().fit(X, y)._open_prediction(X)
    few = replace(question, at_a_time=100)
    for method in ("predict", "predict_proba"):
        np.testing.assert_allclose(few.answers(method), question.answers(method), atol=1e-12)
    np.testing.assert_allclose(few.contributions(0), question.contributions(0), atol=1e-12)


def test_memory_is_kept(rng):
    X, y = rng.normal(size=(20_000, 20)).astype(np.float32), rng.integers(0, 4, 20_000)
    members = pair(RBFClassifier, TanhClassifier, 400)
    unlimited = StackedClassifier(members, device="jit", random_state=0)
    model = clone(unlimited).set_params(max_memory=3 * MIB)
    model.fit(X[:1000], y[:1000]).predict(X[:1000])
    limit = 3 * MIB + 32 * len(X)  # of y, and of what is predicted
    for ours, free in ((model.fit, unlimited.fit), (model.predict, unlimited.predict)):
        rows = (X, y) if ours == model.fit else (X,)
        assert peak(ours, *rows)[1] < limit < peak(free, *rows)[1]


def test_dask(rows):
    da = pytest.importorskip("dask.array")
    X, y, _ = rows
    lazy, expected = da.from_array(X, chunks=(50, 4)), classifier().fit(X, y)
    model = classifier().fit(lazy, da.from_array(y, chunks=50))
    found = model.predict_proba(lazy)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), expected.predict_proba(X), atol=1e-6)
    assert model.score(lazy, y) == expected.score(X, y)


def test_sparse_rows(rows):
    X, y, _ = rows
    dense = of_tanh().fit(X, y)
    sparse = of_tanh().fit(csr_array(X), y)
    np.testing.assert_allclose(
        sparse.decision_function(csr_array(X)), dense.decision_function(X), atol=1e-6
    )
    with pytest.raises(TypeError, match="sparse"):
        classifier().fit(csr_array(X), y)


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        (LogisticRegression(), TypeError, "must be None, or a list"),
        ([], ValueError, "leaves nobody"),
        ([("rbf", "drop")], ValueError, "leaves nobody"),
        ([("line", LogisticRegression())], TypeError, "StackingClassifier"),
        ([("rbf", RBFRegressor())], TypeError, "for the same task"),
        ([("rbf", RBFProjector())], TypeError, "for the same task"),
        ([("rbf", RBFClassifier(readout="softmax"))], ValueError, 'use readout="ridge"'),
        ([("a", TanhClassifier(class_weight="balanced"))], ValueError, "to the ensemble"),
        ([("a", TanhClassifier()), ("a", TanhClassifier())], ValueError, "not unique"),
        ([("device", TanhClassifier())], ValueError, "conflict"),
    ],
)
def test_refused(rows, members, error, message):
    """And what was there stays."""
    X, y, _ = rows
    model = classifier()
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    expected = model.decision_function(X)
    model.set_params(estimators=members)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), expected)


def test_saved(many_rows):
    X, _, y = many_rows
    for model in (regressor().fit(X, y), with_final(weak(StackedRegressor)).fit(X, y)):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.final_weight_ > 0


def test_callbacks_hear_of_members(rows):
    pytest.importorskip("sklearn.callback")
    from recorder import Recorder

    X, y, _ = rows
    recorder = Recorder()
    model = classifier().set_callbacks(recorder).fit(X, y)
    assert recorder.tasks.count("end fit") == 3
    names = {context.estimator_name for context in recorder.contexts}
    assert names == {"StackedClassifier", "RBFClassifier", "TanhClassifier"}
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == y.shape


@parametrize_with_checks(
    [classifier(), regressor(), of_tanh(), with_final(classifier())],
    expected_failed_checks=lambda m: CENTRES if isinstance(m, StackedRegressor) else {},
)
def test_sklearn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", ".* is more than the .* samples", UserWarning)
        warnings.filterwarnings("ignore", ".* only .* samples differ enough", UserWarning)
        warnings.filterwarnings("ignore", "invalid value encountered in cast", RuntimeWarning)
        check(estimator)


@pytest.mark.parametrize("cls", [StackedClassifier, StackedRegressor])
def test_wide_tables_have_no_map(cls, rng):
    """More features than a map has: the other members do without it."""
    X, y = rng.normal(size=(60, 501)), np.arange(60) % 2
    model = cls(random_state=0).fit(X, y)
    assert "map" not in model.named_estimators_
    assert len(model.loo_errors_) == 3
    with pytest.raises(ValueError, match="501"):
        cls([("map", cls.default_estimators()[-1][1])]).fit(X, y)


def test_the_final_network_has_the_penalty_of_its_like(many_rows):
    """One of its own would be too small where y is noise: scores tell of the neighbours' y."""
    X, _, y = many_rows

    class OfTwo(StackedRegressor):
        @classmethod
        def default_estimators(cls):
            members = pair(RBFRegressor, TanhRegressor, 12)
            return [(name, member.set_params(alpha="auto")) for name, member in members]

    model = OfTwo(random_state=0).fit(X, y)
    rbf, tanh = model.estimators_
    assert model.final_estimator_.alpha == tanh.alpha_ != rbf.alpha_
    final = model.default_final_estimator()
    model._stacked_parts().members.give_penalty(final, [("rbf", rbf)])
    assert final.alpha == "auto"


def test_a_class_that_the_sample_lacks(rng):
    """A final network would not know it."""
    X = rng.normal(size=(300, 3))
    y = np.where(np.arange(300) < 2, "rare", np.where(X[:, 0] > 0, "high", "low"))
    model = StackedClassifier(random_state=0)
    model = composed(model, weighting={"n_trained_on": 60}).fit(X, y)
    assert model.final_estimator_ is None
    assert model.predict_proba(X).shape == (300, 3)
