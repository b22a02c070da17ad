"""What `verbose` prints: a line a second, so that long work is seen to move."""

import time


class Progress:
    """Counts rows of one phase of the work and prints how far it is.

    Parameters
    ----------
    what : str
        Estimator and phase, such as "RBFClassifier fit".
    total : int
        Rows in all.
    verbose : int
        0 prints nothing.
    """

    def __init__(self, what, total, verbose):
        self.what, self.total, self.verbose = what, total, verbose
        self.done = 0
        self.start = self.last = time.perf_counter()

    def advance(self, rows):
        self.done += rows
        now = time.perf_counter()
        if self.verbose and (now - self.last > 1 or self.done >= self.total):
            self.last = now
            rate = self.done / max(now - self.start, 1e-9)
            print(f"[{self.what}] {self.done:,} of {self.total:,} rows, {rate:,.0f} rows/s")
