"""The PyTorch engine: its devices and arrays. See test_engines.py for the contract."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.base import clone

import contract
from conftest import open_engine
from sklearn_fsvc import (
    RBFClassifier,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc.engines import get_engine

TorchEngine = ENGINES["torch"]


@pytest.fixture
def torch(request):
    open_engine("torch", request.config)
    return pytest.importorskip("torch")


@pytest.fixture
def accelerator(torch):
    """Return PyTorch's device type of the GPU; skip the test without one."""
    kind = TorchEngine().torch_device.type
    if kind == "cpu":
        pytest.skip("PyTorch has no accelerator here")
    return kind


# Devices.


@pytest.mark.parametrize("suffix", ["rocm", "cuda:", "cuda:x", "cuda:-1", "cuda:0,1", "0", ""])
def test_unknown_device(suffix):
    with pytest.raises(ValueError, match=f"device='torch:{suffix}' is not known.*'torch:mps'"):
        get_engine(f"torch:{suffix}")


def test_missing_pytorch_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("sklearn_fsvc._src.engines.torch.engine._working", set())
    match = r"device='torch:mps' cannot be used: PyTorch cannot be imported.*pip install"
    with pytest.raises(RuntimeError, match=match):
        get_engine("torch:mps")


@pytest.mark.parametrize(
    ("kind", "vendor"), [("cuda", "NVIDIA or AMD"), ("mps", "Apple"), ("xpu", "Intel")]
)
def test_a_device_that_pytorch_does_not_support(torch, monkeypatch, kind, vendor):
    engines = sys.modules[TorchEngine.__module__]
    monkeypatch.setattr(engines, "_count", lambda kind: int(kind == "cpu"))
    monkeypatch.setattr(engines, "_working", set())
    with pytest.raises(RuntimeError, match=f"'torch:{kind}' cannot be used: .* no {vendor} GPU"):
        get_engine(f"torch:{kind}")


def test_a_device_index_that_does_not_exist(torch):
    with pytest.raises(RuntimeError, match="has 1 of cpu, numbered from 0"):
        get_engine("torch:cpu:1")


def test_the_device_is_an_accelerator_or_the_host(torch):
    backends = {"cuda": torch.cuda, "mps": torch.backends.mps, "xpu": torch.xpu}
    expected = next((kind for kind in backends if backends[kind].is_available()), "cpu")
    model = TanhClassifier(5, device="torch").fit([[0.0], [1.0]] * 20, [0, 1] * 20)
    assert model.device_.startswith(f"torch:{expected}")
    with get_engine("torch:cpu") as engine:
        assert engine.name == "torch:cpu"


def test_products_are_in_full_precision_while_an_engine_is_entered(torch):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with get_engine("torch:cpu"):
            with get_engine("torch:cpu"):
                assert torch.get_float32_matmul_precision() == "highest"
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_models_need_no_pytorch(torch, rng, tmp_path):
    X = rng.normal(size=(200, 5))
    models = [
        RBFClassifier(20, random_state=0, device="torch").fit(X, X[:, 0] > 0),
        TanhRegressor(20, random_state=0, device="torch").partial_fit(X, X[:, 0]),
    ]
    (tmp_path / "models").write_bytes(pickle.dumps((X, models, [m.predict(X) for m in models])))
    code = """
        import pickle, sys
        import numpy as np
        X, models, expected = pickle.load(open(sys.argv[1], "rb"))
        for model, predictions in zip(models, expected):
            actual = model.set_params(device="jit").predict(X)
            np.testing.assert_allclose(actual, predictions, atol=1e-9)
        models[1].partial_fit(X, X[:, 0])
        assert "torch" not in sys.modules
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "models")]
    subprocess.run(command, check=True)


# Arrays.


def test_read_only_arrays_are_accepted(torch):
    with get_engine("torch:cpu") as engine:
        for array in (np.arange(6.0).reshape(2, 3), np.arange(6.0)[::-1]):
            array.flags.writeable = False
            np.testing.assert_array_equal(engine.to_host(engine.to_device(array)), array)


def test_too_little_memory_is_a_memory_error(torch):
    with get_engine("torch") as engine:
        for make in (engine.xp.empty, engine.xp.zeros):
            with pytest.raises(MemoryError):
                make((2**30, 2**20))
        with pytest.raises(RuntimeError, match="shape"):  # other errors are not converted
            engine.xp.ones((2, 3)) @ engine.xp.ones((2, 3))


EXPRESSIONS = {
    "fancy index": lambda xp, A, v: A[xp.asarray(np.array([2, 0])), 1:],
    "mask": lambda xp, A, v: A[A[:, 0] > 0],
    "assignment of another dtype": lambda xp, A, v: assign(A, v.astype(np.float32)),
    "reflected": lambda xp, A, v: 1 - 2 / (1 + A * A),
    "scalars of NumPy": lambda xp, A, v: np.float64(2) * A + np.float64(1),
    "two dtypes": lambda xp, A, v: A.astype(np.float32) @ v,
    "column-major": lambda xp, A, v: A.reshape((4, 3), order="F"),
    "copy in the other order": lambda xp, A, v: A.T.copy("F").ravel(),
    "maximum": lambda xp, A, v: xp.maximum(xp.minimum(A, v), -0.5),
    "where": lambda xp, A, v: xp.where(A > 0, np.inf, 0.0) + xp.where(v < A, A, 1.0),
    "keepdims": lambda xp, A, v: A - A.mean(axis=1, keepdims=True),
    "sums of booleans": lambda xp, A, v: (A > 0).sum(axis=0),
    "integers": lambda xp, A, v: (A > 0).sum(axis=0) / 3 + 0.1 * (A > 0) + 1 / (v < A).sum(),
    "largest": lambda xp, A, v: A.max(axis=1) - A.min(),
    "norm": lambda xp, A, v: xp.linalg.norm(A, axis=1) * xp.linalg.norm(v),
    "out": lambda xp, A, v: xp.exp(A, out=xp.empty_like(A)),
    "power of an array": lambda xp, A, v: abs(A) ** 0.5 + xp.power(2.0, A),
    "windows": lambda xp, A, v: xp.lib.stride_tricks.sliding_window_view(A, (2, 2), axis=(0, 1)),
    "bits": lambda xp, A, v: xp.unpackbits((abs(A) * 9).astype(np.uint8), bitorder="little"),
    "sorted": lambda xp, A, v: xp.take_along_axis(A, xp.argsort(-A, axis=1), axis=1),
    "columns": lambda xp, A, v: xp.column_stack([A[:, 0], A]),
    "products": lambda xp, A, v: xp.einsum("ij,ij->i", A, A) @ xp.outer(A[:, 0], v),
    "indices of nonzeros": lambda xp, A, v: xp.flatnonzero(A > 0),
}


def assign(A, v):
    A[1] = v
    A[:, 2] = 7
    return A


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_operations_equal_those_of_numpy(torch, rng, name):
    A, v = rng.normal(size=(3, 4)), rng.normal(size=4)
    expected = EXPRESSIONS[name](np, A.copy(), v)
    with get_engine("torch:cpu") as engine:
        actual = EXPRESSIONS[name](engine.xp, engine.xp.array(A), engine.xp.array(v))
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    tolerance = 1e-6 if expected.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(engine.to_host(actual), expected, rtol=tolerance)


# Triton's kernel, and devices without float64.


def test_the_kernel_of_manhattan_distances(torch):
    """Incomplete blocks and several sums, in Triton's interpreter, which needs no GPU."""
    pytest.importorskip("triton", "3.9", reason="older interpreters do not support NumPy 2.5")
    code = """
        import torch
        from sklearn_fsvc._src.engines.torch import manhattan
        assert manhattan.check("cpu") is None
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            X, C = torch.randn(67, 20, dtype=dtype), torch.randn(131, 20, dtype=dtype)
            whole = torch.full((67, 140), -1.0, dtype=dtype)
            manhattan.manhattan(X, C, whole[:, 3:134], 8)
            expected = torch.cdist(X, C, p=1)
            assert torch.allclose(whole[:, 3:134], expected, rtol=0, atol=20 * tolerance)
            assert (whole[:, :3] == -1).all() and (whole[:, 134:] == -1).all()
    """
    env = os.environ | {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, check=True)


class WithoutFloat64(TorchEngine):
    """A GPU that is used as if it did not support float64."""

    def _has_float64(self):
        return False


def test_a_device_without_float64_fulfils_the_contract(accelerator):
    with WithoutFloat64(accelerator) as engine:
        assert engine.xp.zeros(3).tensor.device.type == "cpu"
        assert engine.xp.zeros(3, np.float32).tensor.device.type == accelerator
        contract.check_engine(engine)


@pytest.mark.parametrize("model", [RBFClassifier(50, alpha="loo"), TanhRegressor(50, alpha=1.0)])
def test_a_device_without_float64_fits_the_same_model(accelerator, monkeypatch, digits32, model):
    expected_model = clone(model).set_params(random_state=0, device="torch").fit(*digits32)
    monkeypatch.setattr(TorchEngine, "_has_float64", lambda self: False)
    model_without = clone(model).set_params(random_state=0, device="torch").fit(*digits32)
    expected = expected_model.readout_coef_
    np.testing.assert_allclose(
        model_without.readout_coef_, expected, atol=1e-3 * np.abs(expected).max()
    )


@pytest.mark.parametrize(
    "model",
    [
        RBFRegressor(1000, alpha=1.0, feature_weights=None),
        RBFRegressor(1000, alpha=1.0, feature_weights=None, metric="euclidean", kernel="gaussian"),
        TanhRegressor(1000, alpha=1.0, feature_weights=None, uncertainty=True),
    ],
)
def test_memory_limit(accelerator, torch, rng, model):
    if accelerator == "mps":
        pytest.skip("PyTorch does not report the peak memory of MPS")
    X = rng.random((100_000, 50), np.float32)
    budget = 100 * 2**20
    model = clone(model).set_params(random_state=0, max_memory=budget, device="torch")
    model.fit(X[:2000], X[:2000, 0])  # libraries allocate workspace once
    device = getattr(torch, accelerator)
    device.reset_peak_memory_stats()
    before = device.memory_allocated()
    model.fit(X, X[:, 0]).predict(X)
    assert device.max_memory_allocated() - before <= budget


@pytest.fixture
def digits32():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


def test_tensors_on_a_gpu_stay_there(accelerator, torch, digits32):
    X = torch.tensor(digits32[0], device=accelerator)
    projector = TanhProjector(20, random_state=0, device="torch").fit(X)
    H = projector.transform(X)
    assert isinstance(H, torch.Tensor)
    assert H.device.type == accelerator
    np.testing.assert_allclose(H.cpu().numpy(), projector.transform(digits32[0]), atol=1e-6)
    with pytest.raises(TypeError, match="copy X to the host"):
        projector.set_params(device="jit").transform(X)
