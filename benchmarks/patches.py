"""Units that are patches: features against their bound and torch; MNIST; what augmentation gains.

python benchmarks/patches.py --data DIR [--json FILE] [--quick]      DIR holds the four IDX files
The bound is the product alone, or the distances alone, of patches that lie there already, by the
same kernel on as many threads. torch is a peer where it is installed.
"""

import time
from functools import partial

import numpy as np

from _report import arguments, report
from sklearn_fsvc import PatchClassifier, PatchProjector, RBFClassifier, TanhClassifier
from sklearn_fsvc.demo import load_images
from sklearn_fsvc.engines import get_engine
from sklearn_fsvc.engines.host import map_rows
from sklearn_fsvc.engines.patches import parts
from sklearn_fsvc.engines.threads import n_threads
from sklearn_fsvc.images import augmented
from sklearn_fsvc.timing import medians

IMAGES = 200
WAYS = {
    "6 x 6, 200 units, 4 x 4": {"n_components": 200, "patch_size": 6},
    "7 x 7, 400 units, 4 x 4": {"n_components": 400},
    "8 x 8, 800 units, 3 x 3": {"n_components": 800, "patch_size": 8, "pool": 3},
    "7 x 7, 400 units, Manhattan": {
        "n_components": 400, "kernel": "laplacian", "metric": "manhattan"
    },
}  # fmt: skip


def features(args, X):
    """Seconds of `transform`, as parts of the time of its products or distances."""
    images = X[:IMAGES].astype(np.float32)
    rows = []
    for name, params in WAYS.items():
        projector = PatchProjector(random_state=0, device="cpu", **params).fit(X[:5000])
        layer = projector._layer().astype(np.float32)
        functions = {
            "bound": partial(_bare, layer, images[:1]),
            "ours": partial(projector.transform, images),
            "the same over NumPy": partial(_on("blas", projector).transform, images),
            **_peers(layer, images, projector.transform(images)),
        }
        times = medians(functions, repeats=5, seconds=15)
        rows.append((f"{name}: ours, us an image", times["ours"] / IMAGES * 1e6))
        rows.append((f"{name}: bound, us an image", times["bound"] / IMAGES * 1e6))
        rows += [(f"{name}: {k} / bound", t / times["bound"]) for k, t in times.items()]
    report(args, f"Features of {IMAGES} images of 28 x 28", [*rows, ("threads", n_threads())])


def _on(device, projector):
    """The same layer on another engine."""
    other = PatchProjector(**projector.get_params()).set_params(device=device)
    vars(other).update({k: v for k, v in vars(projector).items() if k.endswith("_")})
    return other


def _bare(layer, image):
    """What units answer to the patches of one image, as many times as there are images."""
    engine, inner = get_engine("jit"), parts(layer)[1]
    prepared, P = engine.prepare(inner), engine.unfold(layer, image)

    def work(rows):
        out = np.empty((len(P), inner.n_units), P.dtype)
        for _ in range(rows.start, rows.stop):
            engine.hidden(prepared, P, out=out)

    map_rows(work, IMAGES, n_threads())


def _peers(layer, images, expected):
    try:
        import torch
    except ImportError:
        print("torch is not installed: no rows for it")
        return {}
    torch.set_num_threads(n_threads())
    X = torch.from_numpy(images.reshape(-1, 1, 28, 28))
    peers = {"torch unfold": partial(_torch_unfold, torch, layer, X)}
    if layer.accumulation == "product":
        peers["torch conv2d"] = partial(_torch_conv, torch, layer, X)
    for name, peer in peers.items():
        with torch.inference_mode():
            np.testing.assert_allclose(peer().numpy(), expected, atol=1e-3, err_msg=name)
    return peers


def _torch_unfold(torch, layer, X, at_a_time=4):
    """`unfold`, normalised, a product or `cdist`, averaged."""
    side, floor = layer.grid.size, layer.floor
    whitening, inner = parts(layer)
    units = torch.from_numpy(inner.units)
    found = []
    for part in X.split(at_a_time):
        P = torch.nn.functional.unfold(part, side).transpose(1, 2)
        P = P - P.mean(dim=2, keepdim=True)
        P = P / torch.sqrt((P * P).mean(dim=2, keepdim=True) + floor)
        if inner.accumulation == "product":
            A = P @ units.T + torch.from_numpy(inner.bias)
        else:
            P = P @ torch.from_numpy(whitening.units).T + torch.from_numpy(whitening.bias)
            A = torch.exp(torch.cdist(P, units, p=1) / -inner.radius)
        A = A.transpose(1, 2).reshape(len(part), -1, *layer.grid.places)
        found.append(_torch_average(torch, layer, A))
    return torch.cat(found)


def _torch_conv(torch, layer, X, at_a_time=4):
    """A convolution of images, divided by the deviation at each place, averaged."""
    f, side, inner = torch.nn.functional, layer.grid.size, parts(layer)[1]
    units = inner.units - inner.units.mean(axis=1, keepdims=True)
    units = torch.from_numpy(units.reshape(-1, 1, *side))
    bias, found = torch.from_numpy(inner.bias)[:, None, None], []
    for part in X.split(at_a_time):
        variance = f.avg_pool2d(part * part, side, 1) - f.avg_pool2d(part, side, 1) ** 2
        A = f.conv2d(part, units) / torch.sqrt(variance.clamp(min=0) + layer.floor) + bias
        found.append(_torch_average(torch, layer, A))
    return torch.cat(found)


def _torch_average(torch, layer, A):
    """Means over cells, (images, columns), from A (images, units, down, across)."""
    A, t = A.flatten(2)[:, :, None], layer.threshold
    sides = torch.cat([torch.relu(A - t), torch.relu(-A - t)], dim=2) if layer.n_sides == 2 else A
    return (sides @ _cells(torch, layer.grid)).reshape(len(A), -1)


def _cells(torch, grid):
    """(places, cells): what each place counts in the mean of each cell."""
    down, across = (
        np.array(
            [[1 / (c.stop - c.start) * (c.start <= i < c.stop) for c in cells] for i in range(n)]
        )
        for cells, n in zip(grid.cells, grid.places, strict=True)
    )
    return torch.from_numpy(np.kron(down, across).astype(np.float32))


def mnist(args, X, y, X_test, y_test):
    """Accuracy and time of whole fits."""
    options = {"random_state": 0, "device": "cpu"}
    models = {
        "PatchClassifier(60)": PatchClassifier(60, **options),
        "PatchClassifier(120)": PatchClassifier(120, **options),
        "PatchClassifier()": PatchClassifier(**options),
        "PatchClassifier(whitening=0.5, threshold=0.7)": PatchClassifier(
            whitening=0.5, threshold=0.7, **options
        ),
        "PatchClassifier(800, patch_size=8, pool=3, whitening=0.5)": PatchClassifier(
            800, patch_size=8, pool=3, whitening=0.5, **options
        ),
        "RBFClassifier(4096)": RBFClassifier(4096, **options),
        "TanhClassifier(4096), class-informed": TanhClassifier(
            4096, weights="class_informed", image_shape=(28, 28), **options
        ),
    }
    rows = []
    for name, model in list(models.items())[: 1 if args.quick else None]:
        start = time.perf_counter()
        model.fit(X, y)
        rows.append((f"{name}: fit, s", time.perf_counter() - start))
        start = time.perf_counter()
        answers = model.predict(X_test)
        rows.append((f"{name}: predict, s", time.perf_counter() - start))
        rows.append((f"{name}: columns", model.readout_coef_.shape[1]))
        rows.append((f"{name}: accuracy, %", 100 * float(np.mean(answers == y_test))))
    report(args, f"MNIST, {len(X)} + {len(X_test)} images", [*rows, ("threads", n_threads())])


def augmentation(args, X, y, X_test, y_test):
    """What shifts by a pixel or two gain, with few images and with more."""
    rows, order = [], np.random.default_rng(0).permutation(len(X))
    for n in (1000,) if args.quick else (1000, 10_000):
        few, labels = X[order[:n]], y[order[:n]]
        for shift in (0, 1, 2):
            source = augmented(few, labels, (28, 28), shift=shift)
            model = PatchClassifier(100, alpha=1.0, random_state=0, device="cpu").fit(source)
            score = 100 * model.score(X_test, y_test)
            rows.append((f"{n} images, shifts by {shift}: accuracy, %", score))
    report(args, "MNIST, 100 units, alpha=1, images shifted in four directions", rows)


def main(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    if args.quick:
        X, y = X[:5000], y[:5000]
    features(args, X)
    mnist(args, X, y, X_test, y_test)
    augmentation(args, X, y, X_test, y_test)


if __name__ == "__main__":
    main(arguments(data={"required": True}, quick={"action": "store_true"}))
