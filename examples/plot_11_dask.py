"""
11. Data on the workers of a Dask cluster
=========================================

A `TanhClassifier` is fitted to data in the memory of other processes: two workers on this machine
or, with the same code, a cluster. Only sufficient statistics are transferred. Predictions are
computed on the workers, too.

Code that starts processes must be under ``if __name__ == "__main__":``, because each process
imports this file.
"""

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay

from sklearn_fsvc import TanhClassifier

N_BLOCKS, BLOCK_SIZE = 10, 20_000


def make(block):
    """Return the samples of a block, with their classes in the last column."""
    X, y = make_moons(BLOCK_SIZE, noise=0.25, random_state=block)
    return np.column_stack([X, y]).astype(np.float32)


def main():
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        # Each worker generates its blocks, as it would read its part of a file.
        blocks = [
            da.from_delayed(part, shape=(BLOCK_SIZE, 3), dtype=np.float32)
            for part in map(client.submit, [make] * N_BLOCKS, range(N_BLOCKS))
        ]
        table = da.concatenate(blocks)
        X, y = dask.persist(table[:, :2], table[:, 2].astype(np.uint8))
        model = TanhClassifier(300, alpha=1.0, random_state=0).fit(X, y)
        # Predictions are lazy; `compute` evaluates their blocks in parallel.
        predicted = model.predict(X)
        accuracy = (predicted == y).mean().compute()
        print(f"{len(X):,} samples in {predicted.npartitions} blocks: accuracy {accuracy:.1%}")

    # The model is an ordinary estimator, which predicts here without the workers.
    points = make(N_BLOCKS)[:1000]
    display = DecisionBoundaryDisplay.from_estimator(
        model, points[:, :2], response_method="predict", cmap="RdBu", alpha=0.4
    )
    display.ax_.scatter(*points[:, :2].T, c=points[:, 2], cmap="RdBu", s=8, ec="0.4", lw=0.3)
    display.ax_.set_title(
        f"Fitted to {N_BLOCKS * BLOCK_SIZE:,} samples on two workers; test samples as dots"
    )
    plt.show()


if __name__ == "__main__":
    main()
