"""Patches of images, and data augmentation."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from peak_memory import MIB, peak
from sklearn_fsvc import PatchClassifier
from sklearn_fsvc._src.images import PatchGrid
from sklearn_fsvc.images import augmented

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def read_all(source):
    parts = list(source())
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def test_positions_and_cells():
    grid = PatchGrid((11, 8, 3), (4, 3), 2, (3, 2))
    assert grid.output_shape == (4, 3)
    assert grid.n_inputs == 36
    assert grid.cells == ([slice(0, 1), slice(1, 2), slice(2, 4)], [slice(0, 1), slice(1, 3)])
    assert grid.pooled((9, 2)).pool == (4, 2)


def test_images_without_augmentation():
    X, y = read_all(augmented(IMAGES.reshape(2, 12), [5, 6], (3, 4)))
    np.testing.assert_array_equal(X, IMAGES.reshape(2, 12))
    np.testing.assert_array_equal(y, [5, 6])


def test_shifts_and_mirror_images():
    X, y = read_all(augmented(IMAGES.reshape(2, 12), [5, 6], (3, 4), shift=1, flip=True))
    assert X.dtype == np.uint8
    np.testing.assert_array_equal(y, [5, 6] * 10)
    actual = X.reshape(5, 2, 2, 3, 4)[:, :, 0]  # of the first image
    np.testing.assert_array_equal(actual[:, 1], [
        IMAGES[0][:, ::-1],
        [[7, 6, 5, 4], [11, 10, 9, 8], [11, 10, 9, 8]],
        [[3, 2, 1, 0], [3, 2, 1, 0], [7, 6, 5, 4]],
        [[2, 1, 0, 0], [6, 5, 4, 4], [10, 9, 8, 8]],
        [[3, 3, 2, 1], [7, 7, 6, 5], [11, 11, 10, 9]],
    ])  # fmt: skip
    up, down, left, right = actual[1:, 0]
    np.testing.assert_array_equal(up, [[4, 5, 6, 7], [8, 9, 10, 11], [8, 9, 10, 11]])
    np.testing.assert_array_equal(down[1:], IMAGES[0][:2])
    np.testing.assert_array_equal(left[:, :3], IMAGES[0][:, 1:])
    np.testing.assert_array_equal(right[:, 1:], IMAGES[0][:, :3])


def test_channels_stay_together():
    X = np.arange(2 * 2 * 3).reshape(1, 12)
    shifted = read_all(augmented(X, [0], (2, 2, 3), flip=True))[0]
    np.testing.assert_array_equal(shifted[1].reshape(2, 2, 3), X.reshape(2, 2, 3)[:, ::-1])


def test_each_call_starts_anew_and_needs_little_memory(rng):
    X = rng.integers(0, 9, (12_000, 400), np.uint8)
    source = augmented(X, np.zeros(12_000), (20, 20), shift=2)

    def read():
        return sum(len(part) for part, _ in source())

    assert read() == 60_000
    n, most = peak(read)
    assert n == 60_000
    assert most < 16 * MIB < 5 * X.nbytes


def test_a_fit_with_a_source_is_a_fit_with_all_copies(rng):
    X, y = rng.integers(0, 255, (40, 64), np.uint8), np.arange(40) % 2
    source = augmented(X, y, (8, 8), shift=1)
    models = [
        PatchClassifier(5, alpha=1.0, random_state=0).fit(*rows)
        for rows in (read_all(source), (source,))
    ]
    scores = [model.decision_function(X) for model in models]
    np.testing.assert_allclose(*scores, atol=1e-5)


@pytest.mark.parametrize(("params", "error", "message"), [
    ({"shift": -1}, ValueError, "shift=-1 must be a whole number"),
    ({"shift": 1.5}, ValueError, "shift=1.5 must be a whole number"),
    ({"flip": 2}, TypeError, "flip=2 must be True or False"),
    ({"image_shape": 12}, TypeError, r"image_shape=12 must be \(rows, columns\)"),
    ({"image_shape": (3, 3)}, ValueError, "means 9 features, and X has 12"),
    ({"y": [1]}, ValueError, "inconsistent numbers of samples"),
    ({"X": IMAGES}, ValueError, r"X has shape \(2, 3, 4\), and must have one image per row; pass"),
    ({"X": IMAGES[0, 0]}, ValueError, r"X has shape \(4,\), and must have one image per row"),
    ({"X": csr_array(IMAGES.reshape(2, 12))}, TypeError, "must be dense; pass X.toarray()"),
    ({"y": None}, ValueError, "y=None, and each image needs a target; pass y."),
])  # fmt: skip
def test_bad_input(params, error, message):
    options = {"X": IMAGES.reshape(2, 12), "y": [5, 6], "image_shape": (3, 4), **params}
    with pytest.raises(error, match=message):
        augmented(**options)
