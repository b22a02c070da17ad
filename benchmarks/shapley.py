"""Measure exact Shapley values against the explainers of the package shap.

python benchmarks/shapley.py [--background N] [--samples N] [--json FILE]

RBF networks with the default number of units on breast_cancer, 30 features: CPU time per sample,
and the largest error relative to the largest value. Without shap only ours is measured. Its
explainers draw sets of features at random, with their default numbers of evaluations.
"""

import time
import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc.inspection import shapley_values

NETWORKS = {
    "laplacian, manhattan": {"kernel": "laplacian"},
    "gaussian, euclidean": {"kernel": "gaussian", "metric": "euclidean"},
}
REPEATS, SHAP_SAMPLES = 5, 2


def explainers(score, background):
    """Yield (name, function of samples that returns their values) of the package shap."""
    try:
        import shap
    except ImportError:
        return
    masker = shap.maskers.Independent(background, max_samples=len(background))
    permutation = shap.explainers.Permutation(score, masker, seed=0)
    yield "shap, PermutationExplainer", lambda X: permutation(X, silent=True).values
    kernel = shap.KernelExplainer(score, background, seed=0)
    yield "shap, KernelExplainer", lambda X: kernel.shap_values(X, silent=True, l1_reg=False)


def seconds(function):
    start = time.process_time()
    return function(), time.process_time() - start


def measure(title, model, X, background):
    shapley_values(model, X[:1], background)  # compiles
    runs = [seconds(lambda: shapley_values(model, X, background)) for _ in range(REPEATS)]
    exact, duration = runs[0][0], np.median([run[1] for run in runs])
    residual = exact.scores - model.decision_function(X)
    yield f"{title}: units", len(model[-1].centers_)
    yield f"{title}: {len(X)} samples, s", duration
    yield f"{title}: a sample, ms", 1e3 * duration / len(X)
    yield f"{title}: score less sum of values, largest", np.abs(residual).max()

    def score(rows):
        return model.decision_function(pd.DataFrame(rows, columns=X.columns))

    some, largest = X[:SHAP_SAMPLES], np.abs(exact.values).max()
    for name, explain in explainers(score, background):
        explain(some[:1])  # compiles
        values, duration = seconds(lambda explain=explain: explain(some))
        yield f"{title}: {name}, a sample, ms", 1e3 * duration / len(some)
        error = np.abs(values - exact.values[: len(some)]).max()
        yield f"{title}: {name}, relative error", error / largest


def main(args):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    background = X.sample(args.background, random_state=0)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of shap
        for title, options in NETWORKS.items():
            model = make_tabular_pipeline(RBFClassifier(random_state=0, **options)).fit(X, y)
            rows += measure(title, model, X[: args.samples], background)
    report(args, f"Shapley values, {args.background} background samples", rows)


if __name__ == "__main__":
    number = {"type": int}
    main(arguments(background=number | {"default": 100}, samples=number | {"default": 200}))
