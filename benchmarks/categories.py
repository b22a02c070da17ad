"""Compare tabular pipelines with LightGBM on many categories, dates and text.

python benchmarks/categories.py [--samples 12000] [--datasets 2] [--only dates text] [--json FILE]

Synthetic classification datasets. In each the log-odds of the class are the sum of a numerical
feature, a product of signs of two others, and

- categories: a random effect of each of 800 or of 150 shops;
- dates: the season and the weekday of a date;
- text: the effects of six words of each description.

Accuracy on 5,000 test samples, averaged over the datasets, and seconds of fit. LightGBM has its
defaults and uses categories natively; dates become numbers (as int64), and text is dropped. If
skrub is installed, `skrub.TableVectorizer` before LightGBM is compared, too.
"""

from importlib.util import find_spec
from time import perf_counter

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.pipeline import make_pipeline

from _report import arguments, report
from sklearn_fsvc import make_tabular_pipeline

N_TEST = 5000
WORDS = np.array([first + second for first in "bdfgklmnprst" for second in ("al", "en", "ir")])


def make_shops(rng, n, n_shops):
    shop = rng.integers(n_shops, size=n)
    names = pd.Categorical.from_codes(shop, [f"shop {code}" for code in range(n_shops)])
    return names, 2 * rng.normal(size=n_shops)[shop]


def make_dates(rng, n):
    day = rng.integers(4 * 365, size=n)
    odds = 2 * np.sin(2 * np.pi * day / 365.25) + 2.0 * (day % 7 >= 5)
    return np.datetime64("2022-01-01") + day, odds - odds.mean()


def make_texts(rng, n):
    words = rng.integers(len(WORDS), size=(n, 6))
    return [" ".join(row) for row in WORDS[words]], rng.normal(size=len(WORDS))[words].sum(axis=1)


DATASETS = {
    "800 categories": lambda rng, n: make_shops(rng, n, 800),
    "150 categories": lambda rng, n: make_shops(rng, n, 150),
    "dates": make_dates,
    "text": make_texts,
}


def make_table(name, n, seed):
    rng = np.random.default_rng(seed)
    special, odds = DATASETS[name](rng, n)
    numbers = rng.normal(size=(n, 3))
    odds = odds + numbers[:, 0] + np.sign(numbers[:, 1]) * numbers[:, 2]
    X = pd.DataFrame(numbers, columns=list("abc")).assign(special=special)
    return X, (odds + 0.5 * rng.logistic(size=n) > 0).astype(int)


def as_numbers(X):
    """Return X as LightGBM takes it."""
    if X["special"].dtype.kind == "M":
        return X.assign(special=X["special"].astype("int64"))
    is_text = not isinstance(X["special"].dtype, pd.CategoricalDtype)
    return X.drop(columns="special") if is_text else X


class LightGBM(LGBMClassifier):
    def fit(self, X, y):
        return super().fit(as_numbers(X), y)

    def score(self, X, y):
        return np.mean(self.predict(as_numbers(X)) == y)


def make_models(seed):
    models = {
        'make_tabular_pipeline(preset="fast")': make_tabular_pipeline(
            preset="fast", random_state=seed
        ),
        "make_tabular_pipeline()": make_tabular_pipeline(random_state=seed),
        "LightGBM": LightGBM(verbose=-1),
    }
    if find_spec("skrub"):
        from skrub import TableVectorizer

        models["skrub and LightGBM"] = make_pipeline(TableVectorizer(), LGBMClassifier(verbose=-1))
    return models


def main(args):
    for name in args.only or DATASETS:
        results = {}
        for seed in range(args.datasets):
            X, y = make_table(name, args.samples + N_TEST, seed)
            train, test = slice(args.samples), slice(args.samples, None)
            for method, model in make_models(seed).items():
                start = perf_counter()
                model.fit(X[train], y[train])
                seconds = perf_counter() - start
                results.setdefault(method, []).append((model.score(X[test], y[test]), seconds))
        table = []
        for method, values in results.items():
            accuracy, seconds = np.mean(values, axis=0)
            table += [(f"{method}: accuracy", 100 * accuracy), (f"{method}: seconds", seconds)]
        report(args, f"tables: {name}", table, samples=args.samples, datasets=args.datasets)


if __name__ == "__main__":
    main(
        arguments(
            samples={"type": int, "default": 12_000},
            datasets={"type": int, "default": 2},
            only={"nargs": "+", "choices": list(DATASETS)},
        )
    )
