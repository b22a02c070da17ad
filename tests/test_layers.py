import numpy as np
import pytest

from sklearn_fsvc.layers import Affine, K, RBFLayer, TanhLayer, hidden_dtype


def test_triangle_and_gaussian_have_equal_area():
    d = np.linspace(-20, 20, 400_001)[:, None]
    areas = []
    for kernel in ("triangular", "gaussian"):
        layer = RBFLayer(np.zeros((1, 1)), 1.3, "manhattan", kernel)
        H = np.abs(d).copy()
        layer.affine.apply(H, np)
        if not layer.is_finished:
            layer.finish(H, np)
        areas.append(H.sum() * (d[1, 0] - d[0, 0]))
    assert areas[0] == pytest.approx(areas[1], rel=1e-4)
    assert areas[0] == pytest.approx(K * 1.3, rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "expected"), [("u1", np.float32), ("f4", np.float32), ("f8", np.float64)]
)
def test_hidden_dtype(dtype, expected):
    assert hidden_dtype(np.dtype(dtype)) == expected


def test_affine_is_applied_in_place():
    A = np.array([[-3.0, 1.0, 2.0]])
    result = Affine(2.0, np.array([1.0, 0.0, 1.0]), 0.0).apply(A, np)
    assert result is A
    np.testing.assert_array_equal(A, [[0, 2, 5]])


def test_astype_moves_all_arrays():
    layer = TanhLayer(np.ones((2, 3)), np.ones(2)).astype(np.float32)
    assert layer.units.dtype == layer.bias.dtype == np.float32
