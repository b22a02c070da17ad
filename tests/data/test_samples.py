import numpy as np
import pytest

from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.engines.jit import JitEngine


class UploadingEngine(JitEngine):
    """An engine whose arrays do not lie where the user's do."""

    def upload_if_fits(self, X, limit):
        return X.copy() if X.nbytes <= limit else X


@pytest.mark.parametrize(("max_memory", "is_there"), [(9600, True), (9599, False), (None, True)])
def test_uploaded_samples_are_reserved(rng, max_memory, is_there):
    """A quarter of the memory is for them, and what is left for the rest."""
    samples = Samples(rng.random((50, 6)), weight=np.ones(50))
    there, left = samples.on_device(Job(UploadingEngine(), max_memory))
    assert (there.X is not samples.X) == is_there
    assert there.weight is samples.weight
    # Where the user gave no limit, the engine itself knows what is free.
    assert left.reserved == (2400 if is_there and max_memory else 0)


def test_samples_of_weight_0_are_not_present(rng):
    X = rng.random((4, 2))
    np.testing.assert_array_equal(Samples(X).present, np.arange(4))
    np.testing.assert_array_equal(Samples(X, weight=np.array([1, 0, 2, 0])).present, [0, 2])
    assert Samples(X).weight_of([1, 2]) is None
