"""How samples are processed in tiles: a drawing, without data."""

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, Rectangle
from page import WIDTH

from sklearn_fsvc._src.inspection.displays import BLUE, ORANGE, VERMILION

PALE = "0.92"
N_TILES, TILE = 7, 2  # of which one is under way


def box(ax, corner, size, text="", colour=PALE, words="black"):
    ax.add_patch(Rectangle(corner, *size, fc=colour, ec="0.3", linewidth=1))
    middle = corner[0] + size[0] / 2, corner[1] + size[1] / 2
    ax.text(*middle, text, ha="center", va="center", fontsize=9, color=words)


def arrow(ax, start, stop, text="", **how):
    shape = FancyArrowPatch(start, stop, arrowstyle="-|>", mutation_scale=16, color="0.2", **how)
    ax.add_patch(shape)
    middle = (start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2 + 0.18
    ax.text(*middle, text, ha="center", fontsize=8)


def heading(ax, x, text):
    ax.text(x, 5.45, text, ha="center", va="bottom", fontsize=9, fontweight="bold")


def tiles():
    """From the samples to the model and to the predictions."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.5), layout="constrained")
    ax.set(xlim=(0, 13.2), ylim=(-0.2, 6.2), aspect="equal")
    ax.axis("off")
    heading(ax, 1.0, "samples X\nin memory or a file")
    for k in range(N_TILES):
        y = 5.2 - 0.7 * (k + 1)
        now = k == TILE
        box(ax, (0.2, y), (1.6, 0.7), "a tile" if now else "", BLUE if now else PALE, "white")
    ax.text(1.0, 0.1, "n samples, d features", ha="center", va="top", fontsize=8)

    y = 5.2 - 0.7 * (TILE + 0.5)
    heading(ax, 5.0, "engine\nCPU or GPU")
    box(ax, (3.6, 2.2), (2.8, 3.0))
    box(ax, (3.9, y - 0.35), (2.2, 0.7), "H of the tile", ORANGE)
    ax.text(5.0, 4.75, "computes all hidden units", ha="center", va="center", fontsize=8)
    ax.text(5.0, 2.6, "then the next tile", ha="center", va="center", fontsize=8, color="0.3")
    arrow(ax, (1.85, y), (3.85, y), "copy in")

    heading(ax, 10.6, "results")
    box(ax, (8.9, 4.15), (3.4, 1.05), "sums: $H^T H$ and $H^T y$\n(size independent of n)", PALE)
    box(ax, (8.9, 2.2), (3.4, 1.05), "predictions\n(one per sample)", PALE)
    arrow(ax, (6.15, y + 0.1), (8.85, 4.65), "", connectionstyle="arc3,rad=0.08")
    arrow(ax, (6.15, y - 0.1), (8.85, 2.75), "", connectionstyle="arc3,rad=-0.08")
    ax.text(7.45, 4.6, "fit: add", ha="center", fontsize=8)
    ax.text(7.45, 2.45, "predict: score", ha="center", fontsize=8)
    box(ax, (8.9, 0.35), (3.4, 1.05), "readout $W$\nsolved once, at the end", VERMILION, "white")
    arrow(ax, (12.35, 4.65), (12.35, 0.9), connectionstyle="arc3,rad=-0.32")
    return fig


PICTURES = {"tiles.png": tiles}
