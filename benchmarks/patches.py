"""Measure patch units: features against their bound and torch; MNIST; augmentation.

python benchmarks/patches.py --data DIR [--json FILE] [--quick] [--device cuda]

DIR contains the four IDX files of MNIST. The bound is the product, or the distances, of patches
that are in memory already, by the same kernel on the same device. torch is compared if it is
installed, in float32 without TF32, on the same device.
"""

import time
from functools import partial
from itertools import product

import numpy as np

from _report import arguments, report
from sklearn_fsvc import PatchClassifier, PatchProjector, RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.engines.patches import make_evaluator, parts
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.parts.composition import layer_of
from sklearn_fsvc._src.tuning import medians
from sklearn_fsvc.images import augmented

# Images whose features are timed, and the batch size of torch.
IMAGES = {"jit": 200, "cuda": 4000}
TORCH_IMAGES = {"cpu": 4, "cuda": 1000}
WAYS = {
    "6 x 6, 200 units, 4 x 4": {"n_components": 200, "patch_size": 6},
    "7 x 7, 400 units, 4 x 4": {"n_components": 400},
    "8 x 8, 800 units, 3 x 3": {"n_components": 800, "patch_size": 8, "pool": 3},
    "7 x 7, 400 units, Manhattan": {
        "n_components": 400, "kernel": "laplacian", "metric": "manhattan"
    },
}  # fmt: skip
WIDE = {"n_hidden": 800, "patch_size": 8, "pool": 3, "whitening": 0.5}


def features(args, X):
    """Time the layer relative to its products or distances."""
    engine = get_engine("jit" if args.device == "cpu" else args.device)
    n = IMAGES[engine.name]
    images, rows = engine.to_device(X[:n].astype(np.float32)), []
    for name, params in WAYS.items():
        projector = PatchProjector(random_state=0, device=args.device, **params).fit(X[:5000])
        layer = layer_of(projector).astype(np.float32)
        out = engine.xp.empty((n, layer.n_units), np.float32)
        functions = {
            "bound": _lower_bound(engine, layer, images),
            "ours": _ours(engine, layer, images, out),
        }
        if args.device == "cpu":
            functions["the same over NumPy"] = _ours(get_engine("blas"), layer, images, out.copy())
        functions |= _peers(engine, layer, images, projector.transform(X[:n].astype(np.float32)))
        times = medians(functions, repeats=5, seconds=15)
        rows.append((f"{name}: ours, us an image", times["ours"] / n * 1e6))
        rows.append((f"{name}: bound, us an image", times["bound"] / n * 1e6))
        rows += [(f"{name}: {k} / bound", t / times["bound"]) for k, t in times.items()]
    report(args, f"Features of {n} images of 28 x 28", [*rows, *_threads(args)], device=args.device)


def _ours(engine, layer, images, out):
    place = make_evaluator(engine, layer, 2**33)
    prepared = place.prepare(layer)

    def work():
        place.hidden(prepared, images, out)
        engine.synchronize()

    return work


def _lower_bound(engine, layer, images):
    """Return a function that multiplies the patches of one image, once per image.

    On a GPU the patches of all images are multiplied at once.
    """
    inner, n = parts(layer)[1], len(images)
    at_a_time = 1 if engine.xp is np else n
    prepared, P = engine.prepare(inner), engine.unfold(layer, images[:at_a_time])

    def some(rows):
        out = engine.xp.empty((len(P), inner.n_units), P.dtype)
        for _ in range(rows.start, rows.stop, at_a_time):
            engine.hidden(prepared, P, out=out)

    def work():
        engine.map_slices(some, n)
        engine.synchronize()

    return work


def _threads(args):
    return [("threads", n_threads())] if args.device == "cpu" else []


def _peers(engine, layer, images, expected):
    try:
        import torch
    except ImportError:
        print("torch is not installed: no rows for it")
        return {}
    torch.set_num_threads(n_threads())
    torch.backends.cudnn.allow_tf32 = False
    X = torch.as_tensor(images, device=_torch_device(engine)).reshape(-1, 1, 28, 28)
    peers = {"torch unfold": partial(_torch_unfold, torch, layer, X)}
    if layer.reduction == "product":
        peers["torch conv2d"] = partial(_torch_conv, torch, layer, X)
    for name, peer in peers.items():
        with torch.inference_mode():
            results = peer().cpu().numpy()
            np.testing.assert_allclose(results, expected, atol=1e-3, err_msg=name)
    return (
        peers
        if X.device.type == "cpu"
        else {k: partial(_synchronised, torch, p) for k, p in peers.items()}
    )


def _torch_device(engine):
    return "cpu" if engine.xp is np else f"cuda:{engine.index}"


def _synchronised(torch, work):
    with torch.inference_mode():
        work()
    torch.cuda.synchronize()


def _torch_unfold(torch, layer, X):
    """Return features by torch: `unfold`, normalisation, a product or `cdist`, averages."""
    side, floor = layer.grid.size, layer.floor
    whitening, inner = parts(layer)
    there = partial(torch.as_tensor, device=X.device)
    units, results = there(inner.units), []
    for part in X.split(TORCH_IMAGES[X.device.type]):
        P = torch.nn.functional.unfold(part, side).transpose(1, 2)
        P = P - P.mean(dim=2, keepdim=True)
        P = P / torch.sqrt((P * P).mean(dim=2, keepdim=True) + floor)
        if inner.reduction == "product":
            A = P @ units.T + there(inner.bias)
        else:
            P = P @ there(whitening.units).T + there(whitening.bias)
            A = torch.exp(torch.cdist(P, units, p=1) / -inner.radius)
        A = A.transpose(1, 2).reshape(len(part), -1, *layer.grid.output_shape)
        results.append(_torch_average(torch, layer, A))
    return torch.cat(results)


def _torch_conv(torch, layer, X):
    """Return features by torch: a convolution, divided by local deviations, averages."""
    f, side, inner = torch.nn.functional, layer.grid.size, parts(layer)[1]
    units = inner.units - inner.units.mean(axis=1, keepdims=True)
    there = partial(torch.as_tensor, device=X.device)
    units = there(units.reshape(-1, 1, *side))
    bias, results = there(inner.bias)[:, None, None], []
    for part in X.split(TORCH_IMAGES[X.device.type]):
        variance = f.avg_pool2d(part * part, side, 1) - f.avg_pool2d(part, side, 1) ** 2
        A = f.conv2d(part, units) / torch.sqrt(variance.clamp(min=0) + layer.floor) + bias
        results.append(_torch_average(torch, layer, A))
    return torch.cat(results)


def _torch_average(torch, layer, A):
    """Return means over cells, (images, columns), of A (images, units, rows, columns)."""
    A, t = A.flatten(2)[:, :, None], layer.threshold
    sides = torch.cat([torch.relu(A - t), torch.relu(-A - t)], dim=2) if layer.n_sides == 2 else A
    return (sides @ _cells(torch, layer.grid, A.device)).reshape(len(A), -1)


def _cells(torch, grid, device):
    """Return the weights (positions, cells) of positions in the means of cells."""
    down, across = (
        np.array(
            [[1 / (c.stop - c.start) * (c.start <= i < c.stop) for c in cells] for i in range(n)]
        )
        for cells, n in zip(grid.cells, grid.output_shape, strict=True)
    )
    return torch.as_tensor(np.kron(down, across).astype(np.float32), device=device)


def mnist(args, X, y, X_test, y_test):
    """Report accuracy and time of fits."""
    options = {"random_state": 0, "device": args.device}
    models = {
        "PatchClassifier(60)": PatchClassifier(60, **options),
        "PatchClassifier(120)": PatchClassifier(120, **options),
        "PatchClassifier()": PatchClassifier(**options),
        "PatchClassifier(whitening=0.5, threshold=0.7)": PatchClassifier(
            whitening=0.5, threshold=0.7, **options
        ),
        "PatchClassifier(800, patch_size=8, pool=3, whitening=0.5)": PatchClassifier(
            **WIDE, **options
        ),
        "RBFClassifier(4096)": RBFClassifier(4096, **options),
        "TanhClassifier(4096), class-informed": TanhClassifier(
            4096, weights="class_informed", image_shape=(28, 28), **options
        ),
    }
    rows = []
    for name, model in list(models.items())[: 1 if args.quick else None]:
        if args.device != "cpu":  # compile, and allocate once
            rows.append((f"{name}: first fit, s", _seconds(model.fit, X, y)))
        rows.append((f"{name}: fit, s", _seconds(model.fit, X, y)))
        start = time.perf_counter()
        predictions = model.predict(X_test)
        rows.append((f"{name}: predict, s", time.perf_counter() - start))
        rows.append((f"{name}: columns", model.readout_coef_.shape[1]))
        rows.append((f"{name}: accuracy, %", 100 * float(np.mean(predictions == y_test))))
    title = f"Patches: MNIST, {len(X)} + {len(X_test)} images"
    report(args, title, [*rows, *_threads(args)], device=args.device)


def _seconds(work, *arguments):
    start = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start


def augmentation(args, X, y, X_test, y_test):
    """Report the effect of shifts by one and two pixels, for few and for more images."""
    rows, order = [], np.random.default_rng(0).permutation(len(X))
    ways = {"100 units": {"n_hidden": 100}}
    if args.device != "cpu":
        ways = {"400 units": {}, "8 x 8, 800 units, 3 x 3": WIDE}
    for n in (1000,) if args.quick else (1000, 10_000, *([] if args.device == "cpu" else [len(X)])):
        few, labels = X[order[:n]], y[order[:n]]
        for (name, params), shift in product(ways.items(), (0, 1, 2)):
            source = augmented(few, labels, (28, 28), shift=shift)
            model = PatchClassifier(alpha=1.0, random_state=0, device=args.device, **params)
            what = f"{name}, {n} images, shifts by {shift}"
            rows.append((f"{what}: fit, s", _seconds(model.fit, source)))
            rows.append((f"{what}: accuracy, %", 100 * model.score(X_test, y_test)))
    report(
        args, "Patches: MNIST, alpha=1, images shifted in four directions", rows, device=args.device
    )


def main(args):
    X, y, X_test, y_test, _ = load_images(args.data)
    if args.quick:
        X, y = X[:5000], y[:5000]
    features(args, X)
    mnist(args, X, y, X_test, y_test)
    augmentation(args, X, y, X_test, y_test)


if __name__ == "__main__":
    main(
        arguments(
            data={"required": True}, quick={"action": "store_true"}, device={"default": "cpu"}
        )
    )
