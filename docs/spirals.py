"""Draws the picture of the front page, _static/spirals.png, from examples/plot_novelty_2d.py."""

import runpy
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "_static" / "spirals.png"
SHOWN = (1.6, 0.8, 0.4)  # radii: too wide, on the way, good


def draw(example):
    """The regions and centres of three of its networks, side by side."""
    fig, axes = plt.subplots(1, len(SHOWN), figsize=(10, 3.7), layout="constrained")
    shown = zip(example["models"], example["accuracies"], strict=True)
    shown = [(model, accuracy) for model, accuracy in shown if model.radius_ in SHOWN]
    for ax, (model, accuracy) in zip(axes, shown, strict=True):
        example["plot_regions"](ax, model)
        ax.scatter(
            *model.centers_.T,
            c=model.center_labels_,
            s=16,
            cmap=example["COLOURS"],
            ec="white",
            linewidth=0.6,
        )
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{len(model.centers_)} of 1,500 rows as centres: {accuracy:.1%}", fontsize=10)
    return fig


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    example = HERE.parent / "examples" / "plot_novelty_2d.py"
    with TemporaryDirectory() as folder, chdir(folder):  # The example saves a picture of its own.
        fig = draw(runpy.run_path(example))
    PICTURE.parent.mkdir(exist_ok=True)
    fig.savefig(PICTURE, dpi=90)
