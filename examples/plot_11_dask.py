"""
11. Rows on the workers of a Dask cluster
=========================================

A `TanhClassifier` learns from rows that lie in the memory of other processes: here two workers
on this machine, elsewhere a cluster. Only sums of the rows come back. Answers are computed where
the rows are, too.

What starts processes must be under ``if __name__ == "__main__":``, for each process imports
this file.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from sklearn_fsvc import TanhClassifier

N_BLOCKS, ROWS = 10, 20_000  # of a block


def make(block):
    """The rows of a block and their classes, in the last column."""
    X, y = make_moons(ROWS, noise=0.25, random_state=block)
    return np.column_stack([X, y]).astype(np.float32)


def main():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        # Each worker makes the blocks that it will hold, as it would read its part of a file.
        blocks = [
            da.from_delayed(part, shape=(ROWS, 3), dtype=np.float32)
            for part in map(client.submit, [make] * N_BLOCKS, range(N_BLOCKS))
        ]
        table = da.concatenate(blocks)
        X, y = dask.persist(table[:, :2], table[:, 2].astype(np.uint8))
        model = TanhClassifier(300, alpha=1.0, random_state=0).fit(X, y)
        # Nothing is computed until somebody asks; then blocks of predictions are, side by side.
        predicted = model.predict(X)
        accuracy = (predicted == y).mean().compute()
        print(f"{len(X):,} rows in {predicted.npartitions} blocks: {accuracy:.1%} are right")

    # The model is an ordinary one: it predicts here, without the workers.
    points = make(N_BLOCKS)[:1000]
    display = DecisionBoundaryDisplay.from_estimator(
        model, points[:, :2], response_method="predict", cmap="RdBu", alpha=0.4
    )
    display.ax_.scatter(*points[:, :2].T, c=points[:, 2], cmap="RdBu", s=8, ec="0.4", lw=0.3)
    display.ax_.set_title(f"What {N_BLOCKS * ROWS:,} rows on two workers taught; new rows as dots")
    plt.show()


if __name__ == "__main__":
    main()
