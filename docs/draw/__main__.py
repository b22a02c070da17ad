"""Draws pictures of the documentation, into docs/pictures: `python docs/draw`.

`python docs/draw spirals` draws those of one file, such as the picture of the README.
"""

import importlib
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from page import DPI

FOLDER = Path(__file__).resolve().parent.parent / "pictures"
FILES = ["novelty", "parameters", "images", "tiles", "shapley", "intervals"]

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file in sys.argv[1:] or FILES:
        for name, draw in importlib.import_module(file).PICTURES.items():
            fig = draw()
            fig.savefig(FOLDER / name, dpi=DPI, bbox_inches="tight", pad_inches=0.05)
            plt.close(fig)
