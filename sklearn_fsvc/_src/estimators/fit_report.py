"""What ``verbose=1`` prints of a fit: one line for each decision, with its seconds."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy.typing as npt

from ..data.job import print_line
from ..parts.readout import Readout
from ..parts.units import Units
from ..readouts.penalty_search import SearchHistory


class FitReport:
    """Prints a line for each decision of a fit, with the seconds since the one before.

    Parameters
    ----------
    description : str
        The estimator and the phase, such as "RBFClassifier fit".
    verbose : int
        0 prints nothing.
    """

    def __init__(self, description: str, verbose: int) -> None:
        self.description, self.verbose = description, verbose
        self._last = perf_counter()
        self._seconds: dict[str, str] = {}  # of the networks of an ensemble

    def print_start(self, text: str) -> None:
        """Print what begins now, and takes long."""
        if self.verbose:
            print_line(self.description, text)

    def time_stage(self, name: str | None = None) -> str:
        """Return the seconds since the last decision; with a name they are kept under it."""
        now = perf_counter()
        seconds, self._last = f"{now - self._last:.2g} s", now
        if name is not None:
            self._seconds[name] = seconds
        return seconds

    def print_decision(self, text: str) -> None:
        """Print a decision and its seconds."""
        if self.verbose:
            print_line(self.description, f"{text}; {self.time_stage()}")

    def print_layer(self, units: Units, history: SearchHistory) -> None:
        """Print the layer that was chosen, and its validation error if several were compared."""
        if not self.verbose:
            return
        layer, rows = units.layer, history.rows
        matching = [row for row in rows if layer.hyperparameters.items() <= row.items()]
        text = f"hidden layer: {describe_layer(units, layer)}"
        if matching:
            error = min(row["error"] for row in matching)
            text += f"; validation error {error:.4g}, {len(rows)} readouts evaluated"
        self.print_decision(text)

    def print_readout(
        self, readout: Readout, errors: Mapping[float, float], is_loo: bool = False
    ) -> None:
        """Print the penalty of the readout, and its error if it was chosen.

        `errors` are those of the penalties that were evaluated for it: leave-one-out errors if
        `is_loo`, else validation errors.
        """
        if not self.verbose:
            return
        fitted, text = readout.fitted, f"readout: {type(readout).__name__.lower()}"
        alpha, loo_errors = fitted.get("alpha_"), fitted.get("loo_errors_")
        if alpha is not None:
            text += f", alpha {alpha:.4g}"
        if loo_errors is not None:
            text += _describe_choice("leave-one-out", min(loo_errors), len(loo_errors))
        elif alpha is not None and readout.is_ridge and alpha in errors:
            kind = "leave-one-out" if is_loo else "validation"
            text += _describe_choice(kind, errors[alpha], len(errors))
        self.print_decision(text)

    def print_ensemble(
        self, names: Sequence[str], weights: npt.NDArray, kind: str, errors: npt.NDArray,
        final_weight: float,
    ) -> None:  # fmt: skip
        """Print the weight of each network of a stacked ensemble, its error and its seconds.

        `kind` is that of the errors, such as "leave-one-out".
        """
        if not self.verbose:
            return
        for name, weight, error in zip(names, weights, errors, strict=True):
            share = f"weight {weight:.2g}" if weight else "not used"
            text = f"{name}: {share}; {kind} error {error:.4g}; {self._seconds[name]}"
            print_line(self.description, text)
        if seconds := self._seconds.get("final network"):
            gains = f"weight {final_weight:.2g}" if final_weight else "not used, gains too little"
            print_line(self.description, f"final network: {gains}; {seconds}")


def _describe_choice(kind, error, n_penalties):
    """Return the error of the penalty that was chosen, and among how many."""
    noun = "penalty" if n_penalties == 1 else "penalties"
    return f"; {kind} error {error:.4g}, {n_penalties} {noun}"


def describe_layer(units: Units, layer: Any) -> str:
    """Return the size, formula, width and weights of a fitted layer."""
    n_units = len(layer.units)
    details = [f"{n_units:,} units ({layer.formula})"]
    if layer.n_units != n_units:  # several responses, and cells of an image
        details.append(f"{layer.n_units:,} columns")
    if "radius" in layer.hyperparameters:
        details.append(f"width {layer.radius:.4g}")
    fitted = units.fitted
    if fitted.get("feature_map_") is not None:
        details.append("linear map of the features")
    elif fitted.get("feature_weights_") is not None:
        details.append("feature weights")
    return ", ".join(details)
