"""Measure which part of a prediction the samples listed by `explain` account for.

python benchmarks/explanations.py [--n 5] [--json FILE]

`RBFClassifier(random_state=0)` on datasets of scikit-learn, in a tabular pipeline except for the
digits, which are uint8. On test samples: the median share of the listed contributions in the sum of
all absolute contributions; in how many percent of the samples the sum of the listed contributions
has the sign of the sum of all; and how many percent of the listed samples are of the predicted
class.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from _report import arguments, report
from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc.inspection import explain

DATASETS = {
    "breast_cancer": load_breast_cancer,
    "wine": load_wine,
    "digits (uint8)": load_digits,
}


def main(args):
    table = []
    for name, load in DATASETS.items():
        X, y = load(return_X_y=True)
        network = RBFClassifier(random_state=0)
        model = make_tabular_pipeline(network)
        if name.startswith("digits"):
            X, model = X.astype(np.uint8), network
        X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)
        model.fit(X_train, y_train)
        result = explain(model, X_test, n=args.n)
        listed = result.contributions.sum(axis=1)
        same_sign = np.sign(listed) == np.sign(listed + result.rest)
        same_class = result.targets == model.predict(X_test)[:, None]
        table += [
            (f"{name}: share listed, %", 100 * np.median(result.shares.sum(axis=1))),
            (f"{name}: same sign, %", 100 * np.mean(same_sign)),
            (f"{name}: of the predicted class, %", 100 * np.mean(same_class)),
        ]
    report(args, f"explanations: {args.n} samples listed", table)


if __name__ == "__main__":
    main(arguments(n={"type": int, "default": 5}))
