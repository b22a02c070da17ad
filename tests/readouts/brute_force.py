"""Leave-one-out scores by brute force: the readout is retrained without each sample."""

import numpy as np
from sklearn.datasets import make_classification

import naive
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.data.job import Job
from sklearn_fsvc._src.data.samples import Samples
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.readouts.gather_statistics import gather
from sklearn_fsvc._src.readouts.press import compute_press
from sklearn_fsvc._src.targets.encoding import OneHotTargets
from sklearn_fsvc.engines import get_engine

# Wide units: if a unit covered only the sample at its centre, the leverage of that sample would be
# 1 in float32.
NETWORKS = [
    RBFClassifier(
        20, selection_radius=2.0, radius=10.0, kernel="triangular", feature_weights=None, alpha=1.0,
        random_state=0,
    ),
    TanhClassifier(20, feature_weights=None, alpha=1.0, random_state=0),
]  # fmt: skip
ALPHAS = [1e-5, 0.01, 1.0, 100.0]


def rows_of(n_classes, dtype=float):
    X, y = make_classification(60, 8, n_informative=6, n_classes=n_classes, random_state=0)
    return X.astype(dtype), y


def samples_of(X, y, weight=None):
    """Return `Samples` with the targets of three classes."""
    return Samples(X, OneHotTargets.of_column(y, 3), weight)


def some_weights(n=60):
    """Return weights from 0 to 4, about a quarter of them 0."""
    rng = np.random.default_rng(1)
    return rng.random(n) * rng.integers(0, 4, n) * 2


def hidden_of(clf, X):
    return naive.of_model(clf, X)


def unit_at_sample(clf, n=60):
    """Return for each of n training samples the unit that is centred there, -1 for none."""
    units = np.full(n, -1)
    if hasattr(clf, "support_"):
        units[clf.support_] = np.arange(len(clf.support_))
    return units


def without_each_row(H, Y, alpha, weight=None, own=None):
    """Return leave-one-out scores (n_samples, n_classes), for several penalties a stack of them.

    With `own`, the unit that is centred at the left-out sample is left out, too. A left-out
    sample has weight 0 and a left-out unit activation 0, so that all penalties share the singular
    value decompositions.
    """
    n, rows = len(H), np.arange(len(H))
    w = np.tile(np.ones(n) if weight is None else weight, (n, 1))
    w[rows, rows] = 0
    h, y = (w @ each / w.sum(axis=1, keepdims=True) for each in (H, Y))
    A = H - h[:, None]
    if own is not None:
        has_unit = (own >= 0) & (own < H.shape[1])
        A[rows[has_unit], :, own[has_unit]] = 0
    root = np.sqrt(w)[:, :, None]
    U, s, V = np.linalg.svd(root * A, full_matrices=False)
    B = U.transpose(0, 2, 1) @ (root * (Y - y[:, None]))
    left_out = (V @ A[rows, rows, :, None]).transpose(0, 2, 1)
    scores = [
        (left_out * (s / (s**2 + each))[:, None] @ B)[:, 0] + y for each in np.atleast_1d(alpha)
    ]
    return np.array(scores) if np.ndim(alpha) else scores[0]


def error_of(scores, Y, weight=None):
    return np.average(((Y - scores) ** 2).sum(axis=1), weights=weight)


def press_of(
    clf, X, y, alphas, weight=None, device="jit", max_memory=None, rows=None, centers=None
):
    """Return `compute_press` for the layer of a classifier; `centers` are row numbers."""
    targets = OneHotTargets.of_column(np.searchsorted(clf.classes_, y), len(clf.classes_))
    samples, layer = Samples(X, targets, weight).with_centers(centers), layer_of(clf)
    with get_engine(device) as engine:
        job = Job(engine, max_memory)
        (statistics,) = gather(job, [layer], samples, dtype=float)
        return compute_press(job, layer, samples, statistics, alphas, True, rows)


def translated(statistics, shift):
    """Return the same statistics about another shift."""
    algebra, shape = statistics.algebra, statistics.hy.shape
    empty = statistics.zeros(*shape, algebra, shift=shift, quantizer=statistics.quantizer)
    return empty._combine(statistics, 1)
