"""The validation error on the newest samples of a stream, compared with the lowest so far."""

from dataclasses import dataclass

# Samples of the mean error. With fewer, chance alone makes the ratio exceed 1.5: the relative
# standard deviation of the mean square of 500 normal residuals is 6 %.
WINDOW = 500


@dataclass(frozen=True)
class ErrorMonitor:
    """Mean squared error on the newest samples, predicted before they were added.

    The mean is exponentially weighted with a window of `WINDOW` samples, as in drift detection (J.
    Gama et al. 2004, "Learning with drift detection", which compares it with the lowest so far).
    """

    newest: float = 0.0
    lowest: float = float("inf")
    n_rows: int = 0

    def add(self, error: float, n_rows: int) -> "ErrorMonitor":
        """Return the monitor with the mean error on further samples."""
        weight = n_rows / (min(self.n_rows, WINDOW) + n_rows)
        newest, total = self.newest + weight * (error - self.newest), self.n_rows + n_rows
        lowest = min(self.lowest, newest) if total >= WINDOW else self.lowest
        return ErrorMonitor(newest, lowest, total)

    @property
    def ratio(self) -> float | None:
        """Return the newest error divided by the lowest; None after fewer than `WINDOW` samples."""
        if self.n_rows < WINDOW:
            return None
        if self.lowest > 0:
            return self.newest / self.lowest
        return 2.0 if self.newest > 0 else 1.0  # in place of infinity, and of 0 / 0
