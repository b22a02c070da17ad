"""Compare the engine `torch` with `cuda` on one GPU, alternately.

python benchmarks/torch_engine.py --data DIR [--json FILE] [--units 4096]

Layers of 8192 samples, units and 784 features: t_syn, femtoseconds per sample, unit and feature.
Then fits of MNIST (DIR contains its IDX files), with default hyperparameters ("as made") and with
the selected ones given, and predictions of its training images. The first call of each is not
timed. `torch.cdist`, PyTorch's own Manhattan distance, is timed on a sixteenth of the samples.
"""

from functools import partial

import numpy as np
import torch

from _report import arguments, report
from large_fits import with_selected
from sklearn_fsvc import RBFClassifier, TanhClassifier
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.layers import RBFLayer, TanhLayer
from sklearn_fsvc._src.tuning import medians
from sklearn_fsvc.engines import get_engine

N = M = 8192
FEATURES = 784
DEVICES = ("cuda", "torch:cuda")


def layers():
    """Return {name: (samples, layer)}."""
    rng = np.random.default_rng(0)
    X, C = (rng.random((N, FEATURES), np.float32) for _ in range(2))
    to_bytes = [(255 * array).astype(np.uint8) for array in (X, C)]
    root = FEATURES**0.5
    return {
        "Manhattan, float32": (X, RBFLayer(C, FEATURES / 3)),
        "Manhattan, bytes": (to_bytes[0], RBFLayer(to_bytes[1], 80.0 * FEATURES)),
        "Euclidean, float32": (X, RBFLayer(C, root / 3, "euclidean", "gaussian")),
        "tanh, float32": (X, TanhLayer(C, C[:, 0].copy())),
    }


def layer_rows():
    """Return rows of the report."""
    rows = []
    for name, (X, layer) in layers().items():
        calls = {device: hidden_call(device, X, layer) for device in DEVICES}
        if name == "Manhattan, float32":
            X, C = (torch.asarray(array, device="cuda") for array in (X[: N // 16], layer.units))
            calls["torch.cdist"] = partial(cdist, X, C)
        times = medians(calls, repeats=5)
        if "torch.cdist" in times:
            times["torch.cdist"] *= 16
        rows += [
            (f"{name}, {device}, fs", t / (N * M * FEATURES) * 1e15) for device, t in times.items()
        ]
        rows += [
            (f"{name}, {device} / cuda", times[device] / times["cuda"])
            for device in list(times)[1:]
        ]
    return rows


def hidden_call(device, X, layer):
    """Return a function that computes H on a device, from samples there, and synchronises."""
    engine = get_engine(device).__enter__()
    X, prepared = engine.to_device(X), engine.prepare(layer)
    out = engine.xp.empty((len(X), layer.n_units), layer.hidden_dtype)

    def call():
        engine.hidden(prepared, X, out)
        engine.synchronize()

    return call


def cdist(X, C):
    torch.cdist(X, C, p=1)
    torch.cuda.synchronize()


def fit_rows(args):
    """Return rows of the report."""
    X, y, X_test, y_test, _ = load_images(args.data)
    rows = []
    for automatic in (
        TanhClassifier(args.units, random_state=0),
        RBFClassifier(args.units, random_state=0),
    ):
        fitted = automatic.set_params(device="cuda").fit(X, y)
        for variant, model in {
            "as made": automatic,
            "given": with_selected(fitted, "float"),
        }.items():
            name = f"{type(model).__name__}, {variant}"
            for method in ("fit", "predict"):
                arguments = (X, y) if method == "fit" else (X,)
                calls = {
                    device: partial(call_on, model, device, method, arguments) for device in DEVICES
                }
                times = medians(calls, repeats=3)
                rows += [(f"{name}: {method}, {device}, s", t) for device, t in times.items()]
                rows.append((f"{name}: {method}, torch / cuda", times[DEVICES[1]] / times["cuda"]))
            rows.append((f"{name}: accuracy of torch, %", 100 * model.score(X_test, y_test)))
    return rows


def call_on(model, device, method, arguments):
    getattr(model.set_params(device=device), method)(*arguments)


if __name__ == "__main__":
    args = arguments(
        data={"required": True, "help": "folder with the IDX files of MNIST"},
        units={"type": int, "default": 4096},
    )
    report(args, f"PyTorch beside CUDA, {N} x {M} x {FEATURES}", layer_rows())
    report(args, f"PyTorch beside CUDA, MNIST, {args.units} units", fit_rows(args))
