"""The main job, for a first look: both networks on handwritten digits."""

import gzip
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from .data.tiling import check_fits, parse_memory
from .engines import get_engine
from .estimators.rbf import RBFClassifier
from .estimators.tanh import TanhClassifier
from .readouts.statistics import RidgeStatistics
from .utils.parameters import check_count

PICTURE = "digits.png"

_MNIST = {
    "X_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "X_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def read_idx(path):
    """An IDX file, gzipped or not, as a uint8 array.

    Format: two zero bytes, a type byte (8: unsigned byte), the number of dimensions, each
    of them as a big-endian 32-bit integer, the data (LeCun, "The MNIST database").
    """
    data = Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes.")
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def load_images(folder=None):
    """Handwritten digits: MNIST from `folder`, or the 8 x 8 digits that scikit-learn bundles.

    The four IDX files of MNIST, gzipped or not, are in the folder or in its subfolder mnist.
    Returns X_train, y_train, X_test, y_test, with a row of uint8 pixels for each image, and the
    shape of an image.
    """
    if folder is None:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X.astype(np.uint8), y, random_state=0)
        return X, y, X_test, y_test, (8, 8)
    parts = {key: read_idx(_find(Path(folder), name)) for key, name in _MNIST.items()}
    shape = parts["X_train"].shape[1:]
    flat = (a if a.ndim == 1 else a.reshape(len(a), -1) for a in parts.values())
    return *flat, shape


def _find(folder, name):
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}.")
    for path in (folder / name, folder / "mnist" / name):
        for candidate in (path, path.with_name(path.name + ".gz")):
            if candidate.exists():
                return candidate
    raise FileNotFoundError(f"no {name}[.gz] in {folder} or {folder / 'mnist'}.")


def run(folder=None, output=None, n_hidden=None, device="auto", verbose=0):
    """Train and score both networks, print what it took, save a picture.

    What cannot be done is refused before anything is computed. The picture goes to `output`, by
    default `PICTURE`, where matplotlib is installed. `n_hidden` is 4096 by default on MNIST and 600
    on the small digits.
    """
    output = _checked_output(output)
    X, y, X_test, y_test, shape = load_images(folder)
    if n_hidden is None:
        n_hidden = 600 if folder is None else 4096
    _check_size(n_hidden, len(X), device)
    print(f"{len(X):,} training and {len(X_test):,} test images of {shape[0]} x {shape[1]} pixels")
    if output is None:
        print("no picture will be drawn, for matplotlib is not installed: pip install matplotlib")
    print(
        f"{'network':16}{'units':>6}{'accuracy':>10}{'fit':>9}{'predict':>9}{'rows/s':>11}"
        f"{'t_syn':>14}"
    )
    models = {}
    for model in (
        RBFClassifier(n_hidden, random_state=0, device=device, verbose=verbose),
        TanhClassifier(n_hidden, random_state=0, device=device, verbose=verbose),
    ):
        name = type(model).__name__
        if sys.stdout.isatty():  # the line below takes its place
            print(f"{name:16} learns ...", end="\r", flush=True)
        fit = _seconds(lambda model=model: model.fit(X, y))
        predict = _seconds(lambda model=model: model.predict(X_test))
        models[name] = model
        units = model.readout_coef_.shape[1]
        print(
            f"{name:16}{units:6}{model.score(X_test, y_test):10.2%}{fit:8.2f}s{predict:8.3f}s"
            f"{len(X_test) / predict:11,.0f}"
            f"{predict / (len(X_test) * units * X.shape[1]) * 1e12:11.2f} ps"
        )
    print("t_syn: time to predict per row, hidden unit and feature, in picoseconds")
    if output is not None:
        picture(models, X_test, y_test, shape, output)
        print(f"picture: {output}")


def _checked_output(output):
    """Where the picture goes, None for nowhere; an error where it cannot."""
    if find_spec("matplotlib") is None:
        if output is None:
            return None
        raise RuntimeError(f"--output {output}: a picture needs matplotlib; pip install matplotlib")
    from matplotlib.figure import Figure

    path = Path(output or PICTURE)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--output {path}: there is no folder {path.parent}.")
    known = Figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"--output {path}: its name must end in one of {', '.join(known)}.")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"--output {path}: no file can be written there.")
    return path


def _check_size(n_hidden, n_rows, device):
    """Raise for more units than there are rows for centres, or memory for the readout."""
    if check_count("n_hidden", n_hidden) > n_rows:
        raise ValueError(
            f"n_hidden={n_hidden} is more than the {n_rows} training images, of which hidden units "
            f"are made; give {n_rows} at most."
        )
    with get_engine(device, 0) as engine:
        limit = parse_memory(None, engine.memory()[0])
        check_fits(f"n_hidden={n_hidden}", RidgeStatistics.nbytes(n_hidden), limit)


def _seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def picture(models, X_test, y_test, shape, output):
    """One centre of each class, and the digits that each network gets wrong."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    rows = figure.subfigures(len(models) + 1)
    rbf = models["RBFClassifier"]
    first = [np.flatnonzero(rbf.center_labels_ == c)[0] for c in rbf.classes_]
    titles = [f"centre: {c}" for c in rbf.classes_]
    _images(rows[0], "Some of the training digits that became centres", rbf.centers_[first],
            titles, shape)  # fmt: skip
    for row, (name, model) in zip(rows[1:], models.items(), strict=True):
        answers = model.predict(X_test)
        wrong = np.flatnonzero(answers != y_test)
        titles = [f"{y_test[i]}, not {answers[i]}" for i in wrong]
        title = f"{name}: {len(wrong)} of {len(y_test)} test digits predicted wrongly"
        _images(row, title, X_test[wrong], titles, shape)
    figure.savefig(output, dpi=120)


def _images(row, title, images, titles, shape):
    row.suptitle(title, fontsize=11)
    axes = row.subplots(1, 10)
    for axis in axes:
        axis.set_axis_off()
    for axis, image, text in zip(axes, images, titles, strict=False):
        axis.imshow(image.reshape(shape), cmap="gray_r")
        axis.set_title(text, fontsize=8)
