"""Demonstration: both networks on handwritten digits, with scores, times and a figure."""

import gzip
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from .data.memory_plan import check_fits, parse_memory
from .engines import get_engine
from .estimators.rbf import RBFClassifier
from .estimators.tanh import TanhClassifier
from .readouts.statistics import RidgeStatistics
from .utils.parameters import check_positive_integer

DEFAULT_OUTPUT = "digits.png"
_MNIST_FILES = {
    "X_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "X_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


def run(
    folder: str | None = None,
    output: str | None = None,
    n_hidden: int | None = None,
    device: str = "auto",
    verbose: int = 0,
) -> None:
    """Train and score both networks, print accuracy and times, and save a figure.

    Invalid arguments raise before anything is computed.

    Parameters
    ----------
    folder : str, optional
        Folder of MNIST, see `load_images`.
    output : str, optional
        File of the figure, by default `DEFAULT_OUTPUT` if matplotlib is installed.
    n_hidden : int, optional
        Hidden units, by default 4096 on MNIST and 600 on the digits of scikit-learn.
    device : str
    verbose : int
    """
    path = _check_output(output)
    X, y, X_test, y_test, shape = load_images(folder)
    if n_hidden is None:
        n_hidden = 600 if folder is None else 4096
    _check_n_hidden(n_hidden, len(X), device)
    print(f"{len(X):,} training and {len(X_test):,} test images of {shape[0]} x {shape[1]} pixels")
    if path is None:
        print("no figure, since matplotlib is not installed: pip install matplotlib")
    print(
        f"{'network':16}{'units':>6}{'accuracy':>10}{'fit':>9}{'predict':>9}{'samples/s':>11}"
        f"{'t_syn':>14}"
    )
    models = {}
    for network in (RBFClassifier, TanhClassifier):
        model = network(n_hidden, random_state=0, device=device, verbose=verbose)
        models[network.__name__] = model
        _fit_and_score(model, X, y, X_test, y_test)
    print("t_syn: time to predict per sample, hidden unit and feature, in picoseconds")
    if path is not None:
        plot_errors(models, X_test, y_test, shape, path)
        print(f"figure: {path}")


def _fit_and_score(model, X, y, X_test, y_test):
    """Fit a network, and print its accuracy and times."""
    name = type(model).__name__
    if sys.stdout.isatty():  # overwritten by the line of results
        print(f"{name:16} training ...", end="\r", flush=True)
    fit = _time(model.fit, X, y)
    predict = _time(model.predict, X_test)
    n_units = model.readout_coef_.shape[1]
    # The unit of the source paper, time per operation of the layer: t_syn = t / (N M n).
    t_syn = predict / (len(X_test) * n_units * X.shape[1])
    print(
        f"{name:16}{n_units:6}{model.score(X_test, y_test):10.2%}{fit:8.2f}s{predict:8.3f}s"
        f"{len(X_test) / predict:11,.0f}{t_syn * 1e12:11.2f} ps"
    )


def load_images(
    folder: str | Path | None = None,
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray, npt.NDArray, tuple[int, ...]]:
    """Load MNIST from `folder`, or the 8 x 8 digits that scikit-learn bundles.

    The four IDX files of MNIST, gzipped or not, are in the folder or in its subfolder mnist.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        X is uint8 of shape (n_samples, n_pixels).
    shape : tuple of int
        Height and width of an image.
    """
    if folder is None:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X.astype(np.uint8), y, random_state=0)
        return X, y, X_test, y_test, (8, 8)
    arrays = {key: read_idx(_find(Path(folder), name)) for key, name in _MNIST_FILES.items()}
    shape = arrays["X_train"].shape[1:]
    X, X_test = (arrays[key].reshape(len(arrays[key]), -1) for key in ("X_train", "X_test"))
    return X, arrays["y_train"], X_test, arrays["y_test"], shape


def read_idx(path: str | Path) -> npt.NDArray[np.uint8]:
    """Read an IDX file, gzipped or not, as a uint8 array.

    The format is two zero bytes, a type byte (8: unsigned byte), the number of dimensions, each
    dimension as a big-endian 32-bit integer, and the data (LeCun, "The MNIST database").
    """
    data = Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of unsigned bytes.")
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def plot_errors(
    models: dict, X_test: npt.NDArray, y_test: npt.NDArray, shape: tuple[int, ...], path: Path
) -> None:
    """Save a figure of one centre per class, and of the digits that each model misclassifies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels: Any = figure.subfigures(len(models) + 1)
    rbf = models["RBFClassifier"]
    first = [np.flatnonzero(rbf.center_labels_ == c)[0] for c in rbf.classes_]
    titles = [f"centre: {c}" for c in rbf.classes_]
    _plot_images(panels[0], "Training digits selected as centres", rbf.centers_[first],
                 titles, shape)  # fmt: skip
    for panel, (name, model) in zip(panels[1:], models.items(), strict=True):
        predicted = model.predict(X_test)
        errors = np.flatnonzero(predicted != y_test)
        titles = [f"{y_test[i]}, not {predicted[i]}" for i in errors]
        title = f"{name}: {len(errors)} of {len(y_test)} test digits misclassified"
        _plot_images(panel, title, X_test[errors], titles, shape)
    figure.savefig(path, dpi=120)


def _plot_images(panel, title, images, titles, shape):
    """Plot the first ten images."""
    panel.suptitle(title, fontsize=11)
    axes = panel.subplots(1, 10)
    for axis in axes:
        axis.set_axis_off()
    for axis, image, text in zip(axes, images, titles, strict=False):
        axis.imshow(image.reshape(shape), cmap="gray_r")
        axis.set_title(text, fontsize=8)


def _find(folder, name):
    """Return the path of a file of MNIST; raise FileNotFoundError if there is none."""
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}.")
    for path in (folder / name, folder / "mnist" / name):
        for candidate in (path, path.with_name(path.name + ".gz")):
            if candidate.exists():
                return candidate
    raise FileNotFoundError(f"no {name}[.gz] in {folder} or {folder / 'mnist'}.")


def _check_output(output):
    """Return the path of the figure, or None if there will be none; raise if it is unusable."""
    if find_spec("matplotlib") is None:
        if output is None:
            return None
        raise RuntimeError(f"--output {output}: a figure needs matplotlib; pip install matplotlib")
    from matplotlib.figure import Figure

    path = Path(output or DEFAULT_OUTPUT)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--output {path}: there is no folder {path.parent}.")
    formats = Figure().canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in formats:
        raise ValueError(f"--output {path}: its name must end in one of {', '.join(formats)}.")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"--output {path}: no file can be written there.")
    return path


def _check_n_hidden(n_hidden, n_samples, device):
    """Raise if there are more units than samples to select, or too little memory for H'H."""
    if check_positive_integer("n_hidden", n_hidden) > n_samples:
        raise ValueError(
            f"n_hidden={n_hidden} is more than the {n_samples} training images, from which the "
            f"centres are selected; pass {n_samples} at most."
        )
    with get_engine(device, 0) as engine:
        limit = parse_memory(None, engine.memory()[0])
        check_fits(f"n_hidden={n_hidden}", RidgeStatistics.nbytes(n_hidden), limit)


def _time(function: Callable[..., object], *args: object) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start
