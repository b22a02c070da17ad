"""Prediction intervals of a regressor, for noise that depends on x and noise that is skewed."""

import numpy as np
from plane import BLUE, VERMILION, panels
from scipy.stats import expon, norm

from sklearn_fsvc import TanhRegressor

LEVELS = 0.05, 0.5, 0.95
# Title -> distribution of the noise, and its scale at x.
NOISES = {
    "noise that grows with x": (norm, lambda x: 0.1 + 0.8 * x**2),
    "skewed noise": (expon, lambda x: np.full_like(x, 0.4)),
}


def signal(x):
    return np.sin(5 * x)


def intervals():
    """Samples, predicted quantiles and those of the distribution that the samples are from."""
    fig, axes = panels(len(NOISES), height=2.8)
    for ax, (title, (noise, scale)) in zip(axes[0], NOISES.items(), strict=True):
        rng = np.random.default_rng(0)
        x = rng.uniform(size=1000)
        y = signal(x) + scale(x) * noise.rvs(size=1000, random_state=rng)
        model = TanhRegressor(100, random_state=0).fit(x[:, None], y)
        grid = np.linspace(0, 1, 300)
        low, median, high = model.predict_quantiles(grid[:, None], LEVELS).T
        ax.plot(x, y, ".", color="0.6", markersize=2)
        ax.fill_between(grid, low, high, color=BLUE, alpha=0.25, linewidth=0, label="90 % interval")
        ax.plot(grid, median, color=BLUE, linewidth=1.2, label="median")
        for level in LEVELS:
            of_samples = signal(grid) + scale(grid) * noise.ppf(level)
            label = "true quantiles" if level == LEVELS[0] else None
            ax.plot(grid, of_samples, "--", color=VERMILION, linewidth=1, label=label)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("x", fontsize=9)
    axes[0, 0].set_ylabel("y", fontsize=9)
    axes[0, 0].legend(loc="lower left", fontsize=8, frameon=False)
    return fig


PICTURES = {"intervals.png": intervals}
