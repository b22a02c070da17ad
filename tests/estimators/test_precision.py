"""Activations rounded to 8 or 15 bits: equal in fit and predict, and exact in all sums."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge

import naive
from modified_parts import set_buffer_size
from sklearn_fsvc import (
    HiddenSizeSearchCV,
    RBFClassifier,
    RBFProjector,
    RBFRegressor,
    TanhClassifier,
    TanhProjector,
    TanhRegressor,
)
from sklearn_fsvc._src.data.streaming import is_batch_invariant
from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.algebra import Blocking, HostAlgebra
from sklearn_fsvc._src.estimators import automatic_precision
from sklearn_fsvc._src.formulas import Quantizer
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc.kernels import Gaussian

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32)
TRAIN, TEST = slice(0, 600), slice(600, 900)
PREDICTORS = [RBFClassifier, RBFRegressor, TanhClassifier, TanhRegressor]
PROJECTORS = [RBFProjector, TanhProjector]
PARAMS = {"alpha": 1.0, "feature_weights": None, "random_state": 0}


def signed(model):
    return type(model).__name__.startswith("Tanh")


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("make", PROJECTORS)
def test_activations_equal_the_rounded_formula(make, bits, device):
    plain = make(70, random_state=0, device=device).fit(X[TRAIN])
    model = make(70, random_state=0, device=device, precision=bits).fit(X[TRAIN])
    H, quantizer = plain.transform(X[TEST]), Quantizer(bits, signed(model))
    np.testing.assert_array_equal(model.transform(X[TEST]), quantizer.apply(H, np))
    assert model.precision_ == bits
    assert plain.precision_ is None


@pytest.mark.parametrize("bits", [8, 15])
@pytest.mark.parametrize("make", PREDICTORS)
def test_the_readout_is_fitted_to_rounded_activations(make, bits, device):
    """Compare with scikit-learn's ridge on rounded activations of the reference layer."""
    model = make(60, precision=bits, device=device, **PARAMS).fit(X[TRAIN], Y[TRAIN])
    quantizer = Quantizer(bits, signed(model))

    def rounded(rows):
        H = naive.hidden(layer_of(model), X[rows]).astype(np.float32)
        return quantizer.apply(H, np).astype(np.float64)

    is_classifier = hasattr(model, "classes_")
    targets = np.eye(10)[Y] if is_classifier else (Y - Y[TRAIN].mean()) / Y[TRAIN].std()
    ridge = Ridge(alpha=1.0).fit(rounded(TRAIN), targets[TRAIN])
    expected = ridge.predict(rounded(TEST))
    if not is_classifier:
        expected = expected * Y[TRAIN].std() + Y[TRAIN].mean()
    found = model.decision_function(X[TEST]) if is_classifier else model.predict(X[TEST])
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.ptp(expected))


PLAIN = {"feature_weights": None}
MAP = np.random.default_rng(0).normal(size=(64, 20))
# Layers with different sums, and the engines on which a row of H is always bitwise equal.
ALL_ENGINES, JIT_ONLY, NO_ENGINE = tuple(ENGINES), ("jit",), ()
STREAMS = {
    "manhattan": (RBFClassifier(40, **PLAIN), np.float32, ALL_ENGINES),
    "gaussian": (RBFClassifier(40, kernel="gaussian", **PLAIN), np.float64, ALL_ENGINES),
    "weighted": (RBFClassifier(40, feature_weights=np.linspace(1, 2, 64)), np.float32, ALL_ENGINES),
    "bytes": (RBFClassifier(40, **PLAIN), np.uint8, ALL_ENGINES),
    "euclidean": (RBFClassifier(40, metric="euclidean", **PLAIN), np.float32, JIT_ONLY),
    "euclidean bytes": (RBFClassifier(40, metric="euclidean", **PLAIN), np.uint8, JIT_ONLY),
    "tanh": (TanhClassifier(40, **PLAIN), np.float32, JIT_ONLY),
    # Batches are multiplied sparse or dense, whichever is faster for their density.
    "sparse tanh": (TanhClassifier(40, **PLAIN), np.float64, NO_ENGINE),
    "map": (RBFClassifier(40, feature_weights=MAP), np.float32, NO_ENGINE),
}


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        *((kind, 8) for kind in STREAMS),
        ("manhattan", 15),
        # The number of bits is only a constant: "manhattan" tests both.
        *(
            pytest.param(kind, 15, marks=pytest.mark.exhaustive)
            for kind in ("bytes", "sparse tanh")
        ),
    ],
)
def test_bitwise_equal_in_every_order_of_samples(kind, bits, device):
    """Random batches, removed samples and merged models equal one fit.

    Otherwise a few activations differ by one step, which changes two products by at most a step.
    """
    plain, dtype, exact_on = STREAMS[kind]
    is_on_gpu_of_torch = device == "torch" and ENGINES[device]().torch_device.type != "cpu"
    # Distances of bytes are integers, whose sums are exact in any order.
    is_exact = device in exact_on and (kind == "bytes" or not is_on_gpu_of_torch)
    model = clone(plain).set_params(device=device, precision=bits, alpha=1.0, random_state=0)
    rows = X.astype(dtype)
    rows = csr_array(rows) if kind == "sparse tanh" else rows
    layer = FrozenEstimator(model.fit(rows[TRAIN], Y[TRAIN]))
    empty = clone(plain).set_params(layer=layer, device=device, alpha=1.0, feature_weights=None)
    at_once = clone(empty).fit(rows[TRAIN], Y[TRAIN])
    assert at_once.precision_ == bits
    if kind != "sparse tanh":
        assert is_batch_invariant(ENGINES[device](), layer_of(at_once)) == is_exact
    rng = np.random.default_rng(0)

    def train(indices):
        new = clone(empty)
        cuts = np.sort(rng.choice(np.arange(1, len(indices)), 6, replace=False))
        for batch in np.split(indices, cuts):
            new.partial_fit(rows[batch], Y[batch], classes=range(10))
            set_buffer_size(new, 50)  # so that these batches are summed
        return new

    order = rng.permutation(600)
    more = rng.permutation(900)  # of which 300 are removed
    reduced = train(more)
    for batch in np.array_split(rng.permutation(np.arange(600, 900)), 3):
        reduced.forget(rows[batch], Y[batch])
    merged = train(order[:200]).merge([train(order[200:250]), train(order[250:])])
    streams = [train(order), reduced, merged]
    in_order = train(np.arange(600)).solve()
    reference = in_order._incremental_state.statistics.total
    step = 1 / layer_of(at_once).quantizer.scale
    # Incremental models are solved on the host, whatever the device of the fit.
    pairs = [(at_once, clone(empty).fit(rows[order], Y[order]))]
    pairs += [(in_order, stream.solve()) for stream in streams]
    for expected, each in pairs:
        if is_exact:
            np.testing.assert_array_equal(each.readout_coef_, expected.readout_coef_)
            np.testing.assert_array_equal(each.readout_intercept_, expected.readout_intercept_)
        else:
            atol = 0.01 * np.abs(expected.readout_coef_).max()
            np.testing.assert_allclose(
                each.readout_coef_, expected.readout_coef_, rtol=0, atol=atol
            )
    for each in streams:
        total, atol = (
            each._incremental_state.statistics.total,
            0 if is_exact else 20 * step,
        )
        for name in ("n", "y", "yy"):
            np.testing.assert_array_equal(getattr(total, name), getattr(reference, name))
        for name in ("h", "hy"):
            found, expected = getattr(total, name), getattr(reference, name)
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
        grams = (np.tril(sums.gram.full()) for sums in (total, reference))
        np.testing.assert_allclose(*grams, rtol=0, atol=2 * atol)


def test_forget_restores_the_sums_bitwise():
    model = TanhClassifier(50, precision=8, device="jit", **PARAMS)
    model.partial_fit(X[:500], Y[:500], classes=range(10)).solve()
    before = model.readout_coef_
    model.partial_fit(X[500:900], Y[500:900]).forget(X[500:900], Y[500:900])
    np.testing.assert_array_equal(model.solve().readout_coef_, before)


@pytest.fixture
def quantise_any_size(monkeypatch):
    monkeypatch.setattr(automatic_precision, "MIN_QUANTISED_WORK", 0)
    monkeypatch.setattr(HostAlgebra, "fast_bits", staticmethod(lambda: (8,)))


COMMON = {"random_state": 0, "device": "jit"}


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        *((make, "f4") for make in PREDICTORS), (RBFClassifier, "f8"),
        *(pytest.param(make, "f8", marks=pytest.mark.exhaustive) for make in PREDICTORS[1:]),
    ],
)  # fmt: skip
def test_auto_uses_8_bits_if_the_penalty_allows(make, dtype, quantise_any_size, monkeypatch):
    # Products of bytes are exact, but computed in floats.
    monkeypatch.setattr(HostAlgebra, "blocking", Blocking(byte_work=np.inf))
    rows, new = X[TRAIN].astype(dtype), X[TEST].astype(dtype)
    shared = {"feature_weights": None, **COMMON}
    if make in (RBFClassifier, RBFRegressor):
        shared["metric"] = "manhattan"  # "auto" depends on the precision
    auto = make(60, **shared, alpha=10.0).fit(rows, Y[TRAIN])
    assert auto.precision_ == 8
    given = make(60, **shared, alpha=10.0, precision=8).fit(rows, Y[TRAIN])
    np.testing.assert_array_equal(auto.predict(new), given.predict(new))
    assert make(60, **shared, alpha=1e-5).fit(rows, Y[TRAIN]).precision_ is None


@pytest.fixture
def attempts(monkeypatch):
    """Return a list of the numbers of bits of all attempts with quantised activations."""
    bits, train = [], automatic_precision._Attempt.train

    def record(self, *args):
        bits.append(self._bits)
        return train(self, *args)

    monkeypatch.setattr(automatic_precision._Attempt, "train", record)
    return bits


@pytest.fixture
def estimates(monkeypatch):
    """Return a list of the penalties estimated with a quarter of the units."""
    found, estimate = [], automatic_precision.estimate_penalty

    def record(*args):
        found.append(estimate(*args))
        return found[-1]

    monkeypatch.setattr(automatic_precision, "estimate_penalty", record)
    return found


def set_noise(monkeypatch, noise):
    """Replace the penalty that is equivalent to the quantisation noise by ``noise(n_rows)``."""
    monkeypatch.setattr(automatic_precision, "noise_penalty", lambda layer, n_rows: noise(n_rows))


@pytest.mark.parametrize(("factor", "is_tried"), [(0.99, True), (1.01, False)])
def test_auto_starts_from_the_penalty_of_small_networks(
    factor, is_tried, quantise_any_size, attempts, monkeypatch
):
    """8 bits are not tried if ten times the noise exceeds the penalty of the small networks."""
    U = np.random.default_rng(0).uniform(-1, 1, (1500, 2)).astype(np.float32)
    z = U[:, 0] + U[:, 1] ** 2
    params = {"feature_weights": None, **COMMON}
    model = RBFRegressor(60, **params, precision="float").fit(U, z)
    results = model.search_results_
    is_chosen = (results["kernel"] == model.kernel_) & (results["radius"] == model.radius_)
    is_chosen &= (results["n_units"] != 30) & (
        results["weighted"] == (model.feature_weights_ is not None)
    )
    assert is_chosen.sum() < (results["n_units"] != 30).sum()
    alpha = results["alpha"][is_chosen][results["error"][is_chosen].argmin()]
    set_noise(monkeypatch, lambda n_rows: factor * alpha / 10)
    RBFRegressor(60, **params).fit(U, z)
    assert attempts == [8] * is_tried


def test_the_error_of_8_bits_is_named_in_the_report(quantise_any_size, monkeypatch, capsys):
    set_noise(monkeypatch, lambda n_rows: 1e-9)
    model = RBFRegressor(60, **COMMON, kernel="triangular", feature_weights=None, verbose=1).fit(
        X[TRAIN], Y[TRAIN]
    )
    assert model.precision_ == 8
    assert "readout: ridge" in (line := capsys.readouterr().out.splitlines()[-1])
    assert "; leave-one-out error " in line


def test_auto_estimates_the_penalty_if_few_samples_allow_8_bits(
    quantise_any_size, attempts, estimates, monkeypatch
):
    """A quarter of the units predicts the penalty of all, which avoids a wasted fit."""
    set_noise(monkeypatch, lambda n_rows: 0.0 if n_rows == 1250 else 1e9)
    U = np.random.default_rng(0).integers(0, 256, (1500, 2)).astype(np.uint8)
    y = U[:, 0] + U[:, 1] / 256
    model = RBFRegressor(60, **COMMON, kernel="laplacian", feature_weights=None)
    assert model.fit(U, y).precision_ is None
    assert len(estimates) == 1
    model.fit(U.astype(np.float32), y)
    assert len(estimates) == 1
    assert attempts == []
    # 15 bits are tried without an estimate, for any features.
    monkeypatch.setattr(HostAlgebra, "fast_bits", staticmethod(lambda: (15,)))
    model.fit(U.astype(np.float32), y)
    assert attempts == [15]
    assert len(estimates) == 1


@pytest.mark.parametrize(("noise", "bits"), [(0.5, 8), (300.0, None)])
def test_random_units_are_quantised_if_the_error_is_flat(
    noise, bits, quantise_any_size, attempts, monkeypatch
):
    """The penalty is below three times the noise, but a larger one costs no accuracy."""
    rng = np.random.default_rng(0)
    U = rng.uniform(-1, 1, (3000, 3)).astype(np.float32)
    y = (U[:, 0] + U[:, 1] * U[:, 2] + rng.normal(0, 0.5, 3000) > 0).astype(int)
    shared = {"feature_weights": None, "scale": 1.0, **COMMON}
    exact = TanhClassifier(100, **shared, precision="float").fit(U, y)
    assert exact.alpha_ < 3 * noise
    set_noise(monkeypatch, lambda n_rows: noise)
    model = TanhClassifier(100, **shared).fit(U, y)
    assert model.precision_ == bits
    assert attempts == [8]
    if bits is None:
        np.testing.assert_array_equal(model.readout_coef_, exact.readout_coef_)


def test_centred_units_are_not_quantised_because_the_error_is_flat(quantise_any_size, monkeypatch):
    monkeypatch.setattr(automatic_precision, "_LARGE", 0)
    monkeypatch.setattr(automatic_precision, "_FLAT", np.inf)
    U = np.random.default_rng(0).uniform(-1, 1, (1500, 2)).astype(np.float32)
    y = (U[:, 0] > U[:, 1] ** 2).astype(int)
    fit = RBFClassifier(60, **COMMON, kernel="laplacian", feature_weights=None).fit
    set_noise(monkeypatch, lambda n_rows: 1e-9)
    alpha = fit(U, y).alpha_
    for noise, bits in ((alpha / 3.1, 8), (alpha / 2.9, None)):
        set_noise(monkeypatch, lambda n_rows, noise=noise: noise)
        assert fit(U, y).precision_ == bits


def test_auto_uses_15_bits_if_8_are_too_coarse(quantise_any_size, monkeypatch):
    """The noise of 8 bits is 1000 / (12 * 128^2), and that of 15 bits is smaller."""
    monkeypatch.setattr(HostAlgebra, "fast_bits", staticmethod(lambda: (8, 15)))
    for alpha, bits in ((10.0, 8), (1e-2, 15), (1e-9, None)):
        model = TanhClassifier(60, **COMMON, alpha=alpha, feature_weights=None)
        model.fit(X[TRAIN], Y[TRAIN])
        assert model.precision_ == bits


def test_auto_decides_by_the_final_penalty(quantise_any_size):
    """Smooth targets need a small penalty, so the quantised fit is repeated in floats."""
    U = np.random.default_rng(0).uniform(-1, 1, (1500, 2)).astype(np.float32)
    z = U[:, 0] + U[:, 1] ** 2
    found = TanhRegressor(60, **COMMON, feature_weights=None).fit(U, z)
    exact = TanhRegressor(60, **COMMON, feature_weights=None, precision="float").fit(U, z)
    assert found.alpha_ < 1e-2
    assert found.precision_ is None
    np.testing.assert_array_equal(found.readout_coef_, exact.readout_coef_)


@pytest.mark.parametrize(
    "case", ["sample weights", "class weights", "no fast bits", "small", "float"]
)
def test_auto_keeps_floats(case, quantise_any_size, monkeypatch):
    model, rows, weight = (
        TanhClassifier(60, alpha=10.0, feature_weights=None, **COMMON),
        X[TRAIN],
        None,
    )
    if case == "sample weights":
        weight = np.linspace(1, 2, 600)
    elif case == "class weights":
        model.set_params(class_weight="balanced")
    elif case == "no fast bits":
        monkeypatch.setattr(HostAlgebra, "fast_bits", staticmethod(lambda: ()))
    elif case == "small":
        monkeypatch.setattr(automatic_precision, "MIN_QUANTISED_WORK", 2**36)
    else:
        model.set_params(precision="float")
    assert model.fit(rows, Y[TRAIN], sample_weight=weight).precision_ is None


def test_a_search_rounds_only_with_an_explicit_precision():
    grid = {"n_hidden": [20, 40]}
    for precision, expected in (("auto", None), (8, 8)):
        network = TanhClassifier(precision=precision, **PARAMS)
        search = HiddenSizeSearchCV(network, grid, cv=3).fit(X[TRAIN], Y[TRAIN])
        best = search.best_estimator_
        single = TanhClassifier(best.n_hidden, precision=precision, **PARAMS).fit(
            X[TRAIN], Y[TRAIN]
        )
        assert best.precision_ == single.precision_ == expected
        np.testing.assert_array_equal(best.predict(X[TEST]), single.predict(X[TEST]))


@pytest.mark.parametrize(
    ("precision", "error", "message"),
    [(7, ValueError, "precision=7 is not a supported number of bits"),
     (True, TypeError, "precision=True"),
     ("double", ValueError, "precision='double' is not known"), (8.0, TypeError, "precision=8.0")],
)  # fmt: skip
@pytest.mark.parametrize("make", [*PREDICTORS, *PROJECTORS])
def test_invalid_precision(make, precision, error, message):
    with pytest.raises(error, match=message):
        make(10, precision=precision).fit(X[TRAIN], Y[TRAIN])


class Own(Gaussian):
    name = "own"


def test_custom_kernels_may_have_any_range():
    with pytest.raises(ValueError, match="precision=8 rounds activations between 0 and 1"):
        RBFClassifier(10, kernel=Own(), precision=8).fit(X[TRAIN], Y[TRAIN])


def test_projectors_reject_auto():
    with pytest.raises(ValueError, match="precision='auto' is not known"):
        TanhProjector(10, precision="auto").fit(X[TRAIN])
