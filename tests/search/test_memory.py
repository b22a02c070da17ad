"""`max_memory` of a search: samples, concurrent passes, and decision values."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from peak_memory import MIB, PER_ROW, peak
from search.comparing import assert_same_results
from sklearn_fsvc import HiddenSizeSearchCV, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.search.cached_estimator import FitCache

pytestmark = pytest.mark.usefixtures("without_calibrations")

N, LIMIT = 10_000, 4 * MIB
RBF = RBFClassifier(
    20, selection="random", radius=8.0, kernel="laplacian", feature_weights=None, alpha=1.0,
    random_state=0, device="jit",
)  # fmt: skip
TANH = TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0, device="jit")


@pytest.fixture(scope="module")
def rows():
    rng, y = np.random.default_rng(0), np.arange(N) % 10
    return rng.random((N, 80), np.float32) + y[:, None].astype(np.float32) / 10, y


# Its candidates share no pass.
ALONE = clone(TANH).set_params(alpha=[1.0, 2.0])


def search_of(network, grid, n_jobs=None):
    network = clone(network).set_params(max_memory=LIMIT)
    return HiddenSizeSearchCV(network, grid, cv=2, n_jobs=n_jobs, refit=False)


@pytest.mark.parametrize(
    ("network", "kind"),
    [(TANH, "array"), (TANH, "memmap"), (RBF, "array"), (RBF, "integers"), (RBF, "table"),
     (ALONE, "memmap"), (ALONE, "table")],
)  # fmt: skip
def test_samples_are_not_copied_and_passes_share_the_memory(rows, network, kind, tmp_path):
    """Copies of both training sets would take 3/4 of the limit, those of a file twice the limit."""
    X, y = rows
    if kind == "memmap":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    X = (10 * X).astype(np.int16) if kind == "integers" else X
    X = pd.DataFrame(X) if kind == "table" else X
    grid = {"n_hidden": [10, 20]}
    search_of(network, grid).fit(X[:2000], y[:2000])  # compiles and imports
    _, actual = peak(search_of(network, grid, n_jobs=2).fit, X, y)
    assert actual <= LIMIT + 2 * N * PER_ROW  # and the row numbers of each split


@pytest.mark.parametrize(("n_jobs", "share"), [(None, 1), (2, 2), (16, 3)])
def test_concurrent_passes_and_fits_divide_the_memory(rows, n_jobs, share, before_each_pass):
    """The limit of three concurrent passes, and of networks that are fitted separately."""
    X, y = (some[:600] for some in rows)
    limits = []

    def score(network, X, y):
        limits.append(network.max_memory)
        return network.score(X, y)

    before_each_pass(lambda job, n_samples: limits.append(job.memory_limit))
    grid = {"n_hidden": [10]}
    search_of(TANH, grid, n_jobs).set_params(cv=3).fit(X, y)
    assert len(limits) == 3
    for limit in limits:  # less that of the cached decision values
        assert 0.9 * LIMIT / share < limit <= LIMIT / share
    limits.clear()
    separate = search_of(TANH, grid, n_jobs).set_params(cv=3, scoring=score)
    separate.set_params(estimator__alpha=[1.0, 2.0]).fit(X, y)
    assert limits == [LIMIT // (n_jobs or 1)] * 3


@pytest.mark.parametrize(
    ("return_train_score", "n_alphas"),
    [(False, 8), pytest.param(True, 4, marks=pytest.mark.exhaustive)],
)
def test_decision_values_are_computed_in_parts(rows, return_train_score, n_alphas):
    """Those of all candidates would take three times the limit; results do not depend on it."""
    X, y = rows[0][:, :10], rows[1]
    search = search_of(TANH, {"alpha": np.logspace(-2, 2, n_alphas), "n_hidden": [10, 20]})
    search.set_params(return_train_score=return_train_score)
    free = clone(search).set_params(estimator__max_memory=None).fit(X, y)
    _, actual = peak(search.fit, X, y)
    assert actual <= LIMIT + 2 * N * PER_ROW
    assert_same_results(search.cv_results_, free.cv_results_)
    assert (search.cv_results_["mean_score_time"] > 0).all()


def test_parts_may_contain_several_groups(rows, monkeypatch):
    """A group may span several parts, and a part several groups."""
    X, y = rows[0][:1500, :10], rows[1][:1500]
    grid = {"alpha": [0.1, 1.0, 10.0], "bias": [True, False], "n_hidden": [10, 20]}
    free = search_of(TANH, grid).fit(X, y)
    parts, replace_scores = [], FitCache.replace_scores

    def recorded(cache, part):
        parts.append(part)
        replace_scores(cache, part)

    monkeypatch.setattr(FitCache, "replace_scores", recorded)
    tight = clone(free).set_params(estimator__max_memory="1MiB").fit(X, y)
    assert parts == [range(4, 8), range(8, 12)]  # the first four are scored in the first pass
    assert_same_results(tight.cv_results_, free.cv_results_)


def test_tables_and_splits_in_any_order(rows):
    """Repeated rows, and a table with an object column, which is converted."""
    X, y = rows[0][:500], rows[1][:500]
    order = np.random.default_rng(0).permutation(500)
    cv = [(np.r_[order[:300], order[:50]], order[300:]), (order[200:], order[:200])]
    grid = {"n_hidden": [10, 20]}
    of_array = search_of(TANH, grid).set_params(cv=cv).fit(X, y)
    table = pd.DataFrame(X).add_prefix("x")
    for some in (
        table,
        table.assign(x0=table["x0"].astype(object)),
    ):  # converts to an array of objects
        of_table = search_of(TANH, grid).set_params(cv=cv, refit=True).fit(some, y)
        assert_same_results(of_array.cv_results_, of_table.cv_results_)
