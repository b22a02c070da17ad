"""What the displays share: axes to draw on, colours, and the network at the end of a pipeline."""

import numpy as np
from sklearn.pipeline import Pipeline

# Colours that colour-blind readers can tell apart (Okabe and Ito).
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY = "#E69F00", "#56B4E9"


def axes_for(ax, shape=(), size=(6.4, 4.8)):
    """The user's axes, or new ones.

    Parameters
    ----------
    ax : matplotlib Axes, array-like of Axes, or None
    shape : tuple of int
        Of the array of axes that is needed; () is a single one.
    size : (float, float)
        Of a new figure, in inches.

    Returns
    -------
    matplotlib Axes, or ndarray of Axes of this shape
    """
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "Displays need matplotlib, which cannot be imported; pip install matplotlib."
            ) from error
        if shape == ():
            return plt.subplots(figsize=size, layout="constrained")[1]
        rows, columns = (*shape, 1)[:2]
        _, found = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
        return found.reshape(shape)
    if shape == ():
        return ax
    found = np.asarray(ax, dtype=object)
    if found.size != np.prod(shape):
        raise ValueError(f"ax holds {found.size} axes, and {shape} are needed; give as many.")
    return found.reshape(shape)


def network_of(estimator):
    """The steps before the network of a pipeline, None without a pipeline, and the network."""
    if isinstance(estimator, Pipeline):
        return estimator[:-1], estimator[-1]
    return None, estimator


def text_of(value, sign=""):
    """A class or a number in few letters; with "+" for `sign`, numbers have one."""
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return format(value, f"{sign},.0f" if 1000 <= abs(value) < 1e6 else f"{sign}.3g")
