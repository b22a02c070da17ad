"""One estimator in several threads, in copies and in forked children: updates are atomic."""

import copy
import os
import pickle
import random
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhProjector, TanhRegressor
from sklearn_fsvc._src.engines import registry

N, STEP = 400, 10
X = np.random.default_rng(0).normal(size=(N, 4))
Y = X[:, 0] + np.sin(3 * X[:, 1])
LABELS = np.array(["low", "high"])[(Y > 0).astype(int)]
LAYER = FrozenEstimator(TanhRegressor(12, feature_weights=None, random_state=0).fit(X, Y))
MODEL = TanhRegressor(layer=LAYER, alpha=1.0)
# The layer is provisional: these tests have too few samples to fix it.
PROVISIONAL = TanhRegressor(12, alpha=1.0, feature_weights=None, random_state=0)
WHOLE = clone(MODEL).partial_fit(X[:STEP], Y[:STEP]).partial_fit(X[STEP:], Y[STEP:]).solve()
PARTS = [slice(i, i + STEP) for i in range(STEP, N, STEP)]


@pytest.fixture(autouse=True)
def short_switch_interval():
    """Switch between threads often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def partially_fitted(model=MODEL, y=Y, buffer_rows=35):
    """A model that was trained on the first samples, and sums its buffer after a few calls."""
    classes = {"classes": ["low", "high"]} if y is LABELS else {}
    model = clone(model).partial_fit(X[:STEP], y[:STEP], **classes)
    state = model._incremental_state
    statistics = replace(state.statistics, max_rows=buffer_rows)
    model._incremental_state = replace(state, statistics=statistics)
    return model


def run_while(work, call):
    """Run `work` while another thread calls `call` repeatedly; return the results of that."""
    is_done, results = threading.Event(), []

    def repeat():
        while not is_done.is_set():
            results.append(call())

    with ThreadPoolExecutor(1) as other:
        running = other.submit(repeat)
        try:
            work()
        finally:
            is_done.set()
        running.result(60)
    return results


def assert_has_all_samples(model):
    assert model.solve()._incremental_state.statistics.total.n == N
    np.testing.assert_allclose(model.readout_coef_, WHOLE.readout_coef_, rtol=1e-6, atol=1e-9)


READS_OR_SOLVES = {
    "predict": lambda model: model.predict(X[:3]),
    "score": lambda model: model.score(X[:9], Y[:9]),
    "solve": lambda model: model.solve(),
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "read": lambda model: getattr(model, "readout_coef_", None),
    "merge into another": lambda model: partially_fitted().merge([model]),
}


@pytest.mark.parametrize("run", range(2))
@pytest.mark.parametrize("call", READS_OR_SOLVES.values(), ids=READS_OR_SOLVES)
def test_no_sample_is_lost_while_another_thread_reads(call, run):
    model = partially_fitted()

    def add():
        for part in PARTS:
            model.partial_fit(X[part], Y[part])

    assert run_while(add, lambda: call(model))
    assert_has_all_samples(model)


@pytest.mark.parametrize("run", range(2))
def test_several_threads_add_remove_and_merge(run):
    """In any order, the final model has each sample once."""
    model, others = partially_fitted(), [partially_fitted() for _ in range(4)]
    for i, other in enumerate(others):
        for part in PARTS[30 + i :: 4]:
            other.partial_fit(X[part], Y[part])
        other.forget(X[:STEP], Y[:STEP])

    def add(i):
        for part in PARTS[i:30:4]:
            model.partial_fit(X[part], Y[part])
            model.partial_fit(X[:3], Y[:3])
            model.forget(X[:3], Y[:3])
        model.merge([others[i]])

    def work():
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add, range(4)))

    run_while(work, lambda: model.predict(X[:2]))
    assert_has_all_samples(model)


@pytest.mark.parametrize("run", range(2))
@pytest.mark.parametrize("model", [MODEL, PROVISIONAL], ids=["given", "provisional"])
def test_first_calls_of_partial_fit_may_be_concurrent(model, run):
    """One of them starts the sums or the buffer, and the others add to them."""
    model = clone(model)
    with ThreadPoolExecutor(4) as threads:
        list(
            threads.map(lambda part: model.partial_fit(X[part], Y[part]), [slice(0, STEP), *PARTS])
        )
    assert model.solve()._incremental_state.statistics.total.n == N


@pytest.mark.parametrize("run", range(2))
def test_predictions_are_of_a_state_that_existed(run):
    """Samples are removed and added alternately, so that there are two states."""
    layer = FrozenEstimator(TanhClassifier(8, feature_weights=None).fit(X, LABELS))
    model = partially_fitted(y=LABELS, model=TanhClassifier(layer=layer, alpha=1.0)).solve()
    scores = []
    for change in (model.forget, model.partial_fit):
        scores.append(model.decision_function(X))
        change(X[5:STEP], LABELS[5:STEP])

    def remove_and_add():
        for _ in range(15):
            model.forget(X[5:STEP], LABELS[5:STEP])
            model.partial_fit(X[5:STEP], LABELS[5:STEP])

    for found in run_while(remove_and_add, lambda: model.decision_function(X)):
        assert min(np.abs(found - each).max() for each in scores) < 1e-8
    assert np.abs(scores[0] - scores[1]).max() > 1e-3


@pytest.mark.parametrize("run", range(2))
@pytest.mark.parametrize(
    "model", [RBFClassifier(9, kernel="gaussian", radius=2.0, alpha=1.0), TanhProjector(9)], ids=str
)
def test_a_fit_is_atomic(model, run):
    """Either 9 units and two classes, or 40 units and three classes."""
    sizes = (9, 40)
    model.set_params(random_state=0, feature_weights=None).fit(X, LABELS)
    method = "transform" if hasattr(model, "transform") else "decision_function"
    size = "n_components" if hasattr(model, "transform") else "n_hidden"
    y = np.arange(N) % 3

    def fit():
        for i in range(4):
            model.set_params(**{size: sizes[i % 2]}).fit(X, y if i % 2 else LABELS)

    widths = {9: 1, 40: 3} if method == "decision_function" else {9: 9, 40: 40}
    for found in run_while(fit, lambda: getattr(model, method)(X[:50])):
        assert found.size / 50 in widths.values()
        assert np.isfinite(found).all()


@pytest.mark.parametrize("run", range(2))
def test_a_copy_is_of_a_state_that_existed(run):
    """It has all samples of a call or none."""
    model = partially_fitted()

    def add():
        for part in PARTS[:10]:
            model.partial_fit(X[part], Y[part])

    @cache
    def fitted_to(n):
        so_far = partially_fitted()
        if n > STEP:
            so_far.partial_fit(X[STEP:n], Y[STEP:n])
        return so_far.solve().readout_coef_

    for data in run_while(add, lambda: pickle.dumps(model)):
        found = pickle.loads(data).solve()
        n = int(found._incremental_state.statistics.total.n)
        assert n % STEP == 0
        np.testing.assert_allclose(found.readout_coef_, fitted_to(n), atol=1e-8)


@pytest.mark.parametrize("call", READS_OR_SOLVES, ids=READS_OR_SOLVES)
def test_no_sample_is_lost_from_the_buffer_while_another_thread_reads(call):
    """The reading thread may choose a layer; the final layer is that of all samples."""
    if call == "merge into another":

        def read(model):
            return clone(PROVISIONAL).partial_fit(X[:9], Y[:9]).merge([model])

    else:
        read = READS_OR_SOLVES[call]
    model = clone(PROVISIONAL).partial_fit(X[:STEP], Y[:STEP])

    def work():
        for part in PARTS:
            model.partial_fit(X[part], Y[part])

    assert run_while(work, lambda: read(model))
    assert model.solve()._incremental_state.statistics.total.n == N
    model.solve(fix_layer=True)
    fitted = clone(PROVISIONAL).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), fitted.predict(X), atol=1e-8)


def test_several_threads_fix_the_layer():
    """One thread fixes it; samples that the others add meanwhile enter its sums."""
    model = clone(PROVISIONAL).partial_fit(X[:STEP], Y[:STEP])

    def work(part):
        return model.partial_fit(X[part], Y[part]).solve(fix_layer=True)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, PARTS))
    assert model._incremental_state.statistics.total.n == N
    assert "_sample_buffer" not in vars(model)


READS = {
    "hasattr": lambda model: hasattr(model, "readout_coef_") or hasattr(model, "alpha_"),
    "repr": repr,
    "html": lambda model: model._repr_html_(),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "dir": lambda model: [getattr(model, name, None) for name in dir(model)],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_attributes_neither_changes_state_nor_starts_an_engine(read, monkeypatch):
    model = partially_fitted()
    before, n_threads = dict(vars(model)), threading.active_count()
    with monkeypatch.context() as patched:
        for cls in registry.ENGINES.values():
            patched.setattr(cls, "__enter__", lambda engine: pytest.fail("an engine is started"))
        found = read(model)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert threading.active_count() == n_threads
    if isinstance(found, TanhRegressor):  # an independent copy
        found.partial_fit(X[STEP:], Y[STEP:])
        assert_has_all_samples(found)
    model.partial_fit(X[STEP:], Y[STEP:])
    assert_has_all_samples(model)


@pytest.mark.parametrize("name", ["readout_coef_", "readout_intercept_", "alpha_"])
def test_unsolved_attributes_raise_with_the_remedy(name):
    model = partially_fitted()
    with pytest.raises(AttributeError, match=rf"'{name}' until its readout is solved.*solve\(\)"):
        getattr(model, name)
    model.predict(X[:1])
    assert hasattr(model, name)
    model.partial_fit(X[:3], Y[:3])
    assert not hasattr(model, name)
    assert hasattr(model.solve(), name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'$"):
        getattr(clone(model), name)


def test_solve_after_fit_changes_nothing():
    fitted = clone(MODEL).fit(X, Y)
    before = dict(vars(fitted))
    assert fitted.solve() is fitted
    assert vars(fitted) == before
    with pytest.raises(NotFittedError, match="not fitted"):
        clone(MODEL).solve()


def test_a_failed_call_keeps_the_samples_of_other_threads():
    """One call fails after another one has added samples."""
    model, has_begun, may_continue = partially_fitted(), threading.Event(), threading.Event()

    def others():
        has_begun.set()
        assert may_continue.wait(60)
        yield clone(MODEL)  # not fitted

    with ThreadPoolExecutor(2) as threads:
        merging = threads.submit(lambda: model.merge(others()))
        assert has_begun.wait(60)
        learning = threads.submit(lambda: model.partial_fit(X[STEP:], Y[STEP:]))
        time.sleep(0.05)
        may_continue.set()
        with pytest.raises(NotFittedError):
            merging.result(60)
        learning.result(60)
    assert_has_all_samples(model)


def test_a_parameter_set_during_a_call_keeps_its_value():
    model = partially_fitted()

    def others():
        model.set_params(alpha=3.0)
        yield from ()

    model.merge(others())
    assert model.alpha == 3.0
    assert model.solve().alpha_ == 3.0


def test_a_nested_update_raises():
    model = partially_fitted()

    def others():
        model.partial_fit(X[STEP:20], Y[STEP:20])
        yield from ()

    with pytest.raises(RuntimeError, match="changed by the thread in which it is being"):
        model.merge(others())
    model.partial_fit(X[20:], Y[20:])
    assert_has_all_samples(model)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_can_update_and_predict():
    """It has a state that existed, and can be updated."""
    model, has_begun = partially_fitted(), threading.Event()

    def others():
        has_begun.set()
        time.sleep(0.2)
        yield from ()

    with ThreadPoolExecutor(1) as threads:
        merging = threads.submit(lambda: model.merge(others()))
        assert has_begun.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # ends a child process that is blocked
            model.partial_fit(X[STEP:], Y[STEP:])
            is_right = model.solve()._incremental_state.statistics.total.n == N
            os._exit(0 if is_right else 1)
        assert os.waitpid(child, 0)[1] == 0
        merging.result(60)


@pytest.mark.parametrize("cls", [RBFClassifier, RBFRegressor])
def test_exports_use_the_solved_readout(cls):
    from sklearn_fsvc.export.c import to_c

    y = LABELS if cls is RBFClassifier else Y
    classes = {"classes": ["low", "high"]} if cls is RBFClassifier else {}
    layer = FrozenEstimator(cls(9, random_state=0, feature_weights=None).fit(X, y))
    model = cls(layer=layer, alpha=1.0).partial_fit(X[:50], y[:50], **classes)
    texts = []
    for part in (slice(50, 100), slice(100, N)):
        texts.append(to_c(model))
        model.partial_fit(X[part], y[part])
    assert texts[0] != texts[1]
    assert texts[1] != to_c(model)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
# A file that Python opens during the interrupt is not closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_call_adds_all_its_samples_or_none():
    """Another thread can update the model afterwards: no lock is left behind."""
    if sys.gettrace() is not None:
        pytest.skip("coverage.py would be interrupted, too, and leave its own lock behind")
    model, draw, interrupts, n = partially_fitted(), random.Random(0), [], 0

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while len(interrupts) < 100:
            n_added = int(model._incremental_state.statistics.n_added)
            assert n_added in (n, n + STEP)
            n = n_added
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 2e-3))
                end = time.perf_counter() + 1
                while time.perf_counter() < end:  # exceptions in destructors are not raised
                    model.partial_fit(X[:STEP], Y[:STEP])
                    n += STEP
                    model.predict(X[:2])
            except KeyboardInterrupt as error:
                interrupts.append(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    n = int(model._incremental_state.statistics.n_added)
    with ThreadPoolExecutor(1) as other:
        other.submit(lambda: model.partial_fit(X[:STEP], Y[:STEP])).result(60)
    assert model.solve()._incremental_state.statistics.total.n == n + STEP
