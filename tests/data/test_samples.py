import numpy as np
import pytest

from sklearn_fsvc._src.data import samples as module
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples, draw_without_replacement
from sklearn_fsvc._src.engines.jit import JitEngine


class UploadingEngine(JitEngine):
    """An engine whose arrays are copies of the user's."""

    def upload_if_fits(self, X, limit):
        return X.copy() if X.nbytes <= limit else X


@pytest.mark.parametrize(("max_memory", "is_uploaded"), [(9600, True), (9599, False), (None, True)])
def test_uploaded_samples_are_reserved(rng, max_memory, is_uploaded):
    """They take up to a quarter of the memory; the rest remains."""
    samples = Samples(rng.random((50, 6)), weight=np.ones(50))
    uploaded, left = samples.on_device(Job(UploadingEngine(), max_memory))
    assert (uploaded.X is not samples.X) == is_uploaded
    assert uploaded.weight is samples.weight
    # Without a limit, the free memory of the device counts them.
    assert left.reserved == (2400 if is_uploaded and max_memory else 0)


def test_samples_of_weight_0_are_not_present(rng):
    X = rng.random((4, 2))
    np.testing.assert_array_equal(Samples(X).rows_with_weight, np.arange(4))
    np.testing.assert_array_equal(
        Samples(X, weight=np.array([1, 0, 2, 0])).rows_with_weight, [0, 2]
    )
    assert Samples(X).weight_of([1, 2]) is None


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_draw_rows(kind, monkeypatch):
    """From many samples without a permutation: all are equally likely, and drawn at most once."""
    rows = 3 * np.arange(1000)
    assert (
        draw_without_replacement(rows, 20, kind(1)).tolist()
        == kind(1).permutation(rows)[:20].tolist()
    )
    assert len(draw_without_replacement(rows, 2000, kind(1))) == 1000
    monkeypatch.setattr(module, "_MAX_PERMUTED", 100)
    random, counts = kind(1), np.zeros(1000)
    for _ in range(500):
        drawn = draw_without_replacement(rows, 20, random)
        assert len(np.unique(drawn)) == 20
        counts[drawn // 3] += 1
    assert not np.array_equal(drawn, np.sort(drawn))
    assert abs(counts[:500].sum() - 5000) < 300  # 4 standard deviations
    assert counts.max() < 30
    assert (
        draw_without_replacement(rows, 20, kind(2)).tolist()
        == draw_without_replacement(rows, 20, kind(2)).tolist()
    )
    assert sorted(draw_without_replacement(rows, 1000, random)) == rows.tolist()
