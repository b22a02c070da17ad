"""What the examples share: options, data, colours and the saving of pictures."""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator
from sklearn.datasets import fetch_openml

from sklearn_fsvc.demo import load_images

matplotlib.use("Agg")  # pictures go to files, so no screen is needed

# Okabe and Ito's colours, which colour-blind readers can tell apart.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"


def parse_args(**more):
    """The options of all examples, and `more` of this one: name -> what argparse wants."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with MNIST (IDX, gzip) or a table")
    parser.add_argument("--fetch", action="store_true", help="download MNIST from OpenML")
    parser.add_argument("--output", type=Path, default=Path("pictures"), help="for the pictures")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    for name, options in more.items():
        parser.add_argument(f"--{name}", **options)
    # A gallery or a notebook has arguments of its own.
    args, _ = parser.parse_known_args()
    args.output.mkdir(parents=True, exist_ok=True)
    return args


def load_digits_or_mnist(args):
    """X_train, y_train, X_test, y_test, image_shape, name."""
    *parts, shape = _fetch_mnist() if args.fetch else load_images(args.data)
    name = "8 x 8 digits" if shape == (8, 8) else "MNIST"
    if args.quick:
        parts = [part[:2000] for part in parts]
    return *parts, shape, name


def _fetch_mnist():
    X, y = fetch_openml("mnist_784", as_frame=False, return_X_y=True)
    X, y = X.astype(np.uint8), y.astype(np.uint8)
    return X[:60000], y[:60000], X[60000:], y[60000:], (28, 28)


def seconds(function, *arguments):
    """What the call returns, and the seconds it took."""
    start = perf_counter()
    result = function(*arguments)
    return result, perf_counter() - start


def log_scale(axis):
    """A logarithmic axis with plain numbers: 1, 2, 5, 10, and so on."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def save(fig, args, name):
    path = args.output / name
    fig.savefig(path, dpi=120)
    print(f"saved {path}")
    # sphinx-gallery shows the figures that are left open, and closes them itself.
    if "sphinx_gallery" not in sys.modules:
        plt.close(fig)
