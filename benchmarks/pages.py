"""Write the measured results into README.md and the pages of the documentation.

python benchmarks/pages.py            write them
python benchmarks/pages.py --check    fail if a page differs from results/

Generated blocks are between the comments "numbers: NAME" and "end". The best score of a column is
bold, for every method.
"""

import json
import re
import sys
from functools import cache, partial
from math import isnan
from pathlib import Path

from _tabular_run import read_results
from _tabular_summary import LEAKY, MEDIAN, by_set, compared, complete, standing

HERE = Path(__file__).resolve().parent
PAGES = [
    HERE.parent / page
    for page in (
        "README.md",
        *(f"docs/{name}.rst" for name in (
            "index", "which", "benchmarks", "evaluate", "stacking", "distillation", "time_series",
            "regression", "tables", "probabilities", "automatic", "faq",
        )),
    )
]  # fmt: skip
BLOCK = re.compile(
    r"^( *)((?:<!-- |\.\. )numbers: (\S+)(?: -->)?\n)(.*?)^ *((?:<!-- |\.\. )end(?: -->)?\n)",
    re.DOTALL | re.MULTILINE,
)
PEERS = {"RandomForest": "random forest"}
# Classifier -> the regressor of the same type.
COUNTERPARTS = {
    "StackedClassifier": "StackedRegressor", "RBFClassifier": "RBFRegressor",
    "TanhClassifier": "TanhRegressor", "SVC": "SVR",
}  # fmt: skip
METRICS = {"classification": "accuracy", "regression": "R²"}
# Names of methods in tables per dataset.
SHORT = {
    "StackedClassifier": "stacked", "StackedRegressor": "stacked", "RBFClassifier": "RBF",
    "RBFRegressor": "RBF", "TanhClassifier": "tanh", "TanhRegressor": "tanh",
    "RandomForest": "forest",
}  # fmt: skip
# Column of the results -> factor, the best value, format.
SCALES = {
    "score": (1, max, "{:.1f}".format),
    "log_loss": (1, min, "{:.3f}".format),
    "auc": (100, max, "{:.1f}".format),
}
# Results of whole networks; others are older, of another processor.
CORES, CORES_OF_FEW = "zen5_2cores", "xeon_2cores"
MNIST = "MNIST, 60000 + 10000 images, beside RBFSampler"
SAMPLER = "RBFSampler(4096) + RidgeClassifier, float32"
PACKAGED = {
    "keel": ("KEEL, 43 balanced datasets", "zen4_2cores"),
    "r-classification": ("R packages, 361 classification datasets", "h200_x2"),
    "r-regression": ("R packages, 382 regression datasets", "h200_x2"),
}
PROBABILITIES = "searches, MNIST, 60000 images, device cpu, up to 2048 units, probabilities"


@cache
def results_of(title, file="zen4_2cores"):
    """Return the values of one benchmark, {name: value}."""
    return json.loads((HERE / f"results/{file}.json").read_text())[title]


@cache
def counted(task, track="small", device="cpu"):
    """Return results with default parameters on the datasets of the means: complete, no leak."""
    records = read_results(HERE / f"results/tabular/{track}-{device}.jsonl")
    results = compared(records, tuned=False)
    results = results[results.task == task]
    return results[results["set"].isin(set(complete(results)[0]) - set(LEAKY))]


def without_kddcup():
    """Return the means over all samples without the dataset on which LightGBM's defaults fail."""
    results = counted("classification", "large", "cuda")
    of = standing(results[results["set"] != "kddcup99_10pct"]).score.sort_values(ascending=False)
    texts = [f"{output_name(name, '``')}: {percent(value)}" for name, value in of.items()]
    return (
        f"Means without ``kddcup99_10pct``, where LightGBM's defaults fail:\n{'; '.join(texts)}.\n"
    )


def best_methods():
    """Return the mean accuracy of the best method of each dataset, selected by the test error."""
    of_sets = by_set(counted("classification"), "score")
    return (
        "With the most accurate of these methods for each dataset, selected by its test error, the "
        f"mean accuracy would be\n{of_sets.max(axis=1).mean():.2f} %; that of the ensemble is "
        f"{of_sets['StackedClassifier'].mean():.2f} %.\n"
    )


@cache
def means(task, track="small", device="cpu"):
    """Return means per method, best first, and the number of datasets."""
    results = counted(task, track, device)
    return standing(results).sort_values("score", ascending=False), results["set"].nunique()


def lightgbm_speedup():
    """Return how many times as fast LightGBM fits classification datasets: a ratio of medians."""
    times = means("classification")[0][MEDIAN]
    return f"{times['RBFClassifier'] / times['LightGBM']:.1f}"


def seconds(value):
    """Format a time with two significant digits."""
    return f"{value:.0f} s" if value >= 9.95 else f"{float(f'{value:.2g}')} s"


def percent(value):
    return f"{value:.1f} %"


def best_in_bold(values, show, best=max):
    """Format values, in bold if equal to the best one after rounding; NaN is empty."""
    top = show(best(value for value in values if not isnan(value)))
    texts = ["" if isnan(value) else show(value) for value in values]
    return [f"**{text}**" if text == top else text for text in texts]


def markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def rst(head, rows):
    lines = [[cell or "\\" for cell in line[:1]] + list(line[1:]) for line in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = "  ".join("=" * width for width in widths)
    written = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    return "\n".join([rule, written[0], rule, *written[1:], rule]) + "\n"


def output_name(method, quote):
    """Return the name of a method: of ours the call, as code."""
    if not re.match("Stacked|RBF[CR]|Tanh", method):
        return PEERS.get(method, method)
    call, rest = re.fullmatch(r"(.*?)(, (?:uint8|float32|\d+ units))?", method).groups("")
    return f"{quote}{call if '(' in call else call + '()'}{quote}{rest}"


def standings(task, track="small", device="cpu"):
    """Return a table of methods: scores, rank, datasets won and lost, time to fit."""
    of, _ = means(task, track, device)
    columns = {
        "": [output_name(method, "``") for method in of.index],
        METRICS[task]: best_in_bold(of.score, percent),
    }
    for name, column, best in (("log-loss", "log-loss", min), ("AUC", "AUC, %", max)):
        if of[column].count() > 1:
            show = "{:.3f}".format if best is min else percent
            columns[name] = best_in_bold(of[column], show, best)
    columns["mean rank"] = [f"{value:.1f}" for value in of["rank"]]
    columns["won : lost against LightGBM"] = [
        "" if each == "-" else each.replace("-", " : ") for each in of["won-lost"]
    ]
    columns["fit, median"] = list(map(seconds, of[MEDIAN]))
    return rst(list(columns), zip(*columns.values(), strict=True))


def per_dataset(task, value="score"):
    """Return a table of datasets: their sizes, and the score of each method."""
    results = counted(task)
    of_sets = by_set(results, value)
    # The AUC is defined for two classes, and SVC has no probabilities.
    of_sets = of_sets.dropna(how="all").dropna(axis=1, how="all")
    scale, best, show = SCALES[value]
    sizes = results.groupby("set")[["n_train", "n_test", "n_features"]].max()
    rows = [
        [
            name,
            *(f"{size:,}" for size in sizes.loc[name]),
            *best_in_bold(scale * scores, show, best),
        ]
        for name, scores in of_sets.iterrows()
    ]
    methods = [SHORT.get(name, name) for name in of_sets]
    return rst(["dataset", "training", "test", "features", *methods], rows)


def front_tables():
    """Return both tasks in one table, for the README."""
    classification, n_classification = means("classification")
    regression, n_regression = means("regression")
    pairs = [(name, COUNTERPARTS.get(name, name)) for name in classification.index]
    rows = zip(
        [", ".join(dict.fromkeys(output_name(name, "`") for name in pair)) for pair in pairs],
        best_in_bold(classification.score, percent),
        map(seconds, classification[MEDIAN]),
        best_in_bold(regression.score[[name for _, name in pairs]], percent),
        [seconds(regression[MEDIAN][name]) for _, name in pairs],
        strict=True,
    )
    return (
        f"Means over {n_classification} classification and {n_regression} regression datasets with "
        "default hyperparameters; up to 4000 training\nsamples, two CPU cores, median times. "
        "Our networks are in `make_tabular_pipeline`. "
        f"LightGBM fits **{lightgbm_speedup()}\ntimes as fast** as `RBFClassifier`.\n\n"
    ) + markdown(["", "accuracy", "fit", "R²", "fit"], rows)


def mnist():
    """Return a table of methods: accuracy, and times to fit and to predict."""
    of, end = results_of(MNIST, CORES), ": fit, s"
    methods = [key.removesuffix(end) for key in of if key.endswith(end)]
    rows = zip(
        [output_name(method, "``") for method in methods],
        best_in_bold([of[f"{method}: accuracy, %"] for method in methods], percent),
        [seconds(of[f"{method}: fit, s"]) for method in methods],
        [seconds(of[f"{method}: predict, s"]) for method in methods],
        strict=True,
    )
    return rst(["", "accuracy", "fit", "predict 10,000"], rows)


def card():
    """Return the comparison on the front page."""
    of, n = means("classification")
    ours, *others = (percent(of.score[name]) for name in ("RBFClassifier", "LightGBM", "XGBoost"))
    return (
        f"``RBFClassifier`` in ``make_tabular_pipeline``: {ours} accuracy on average over {n} "
        f"datasets, versus {others[0]} for\nLightGBM and {others[1]} for XGBoost, all with "
        "default hyperparameters. LightGBM fits "
        f"{lightgbm_speedup()} times as fast.\n"
    )


def trees():
    """Return how much faster gradient boosting is, for the page that recommends estimators."""
    return (
        f"On {means('classification')[1]} datasets with up to 4000 training samples, LightGBM "
        f"fits {lightgbm_speedup()} times as fast as\n``RBFClassifier()`` in "
        "``make_tabular_pipeline``.\n"
    )


def card_of_memory():
    of, memory = results_of(MNIST, CORES), results_of("memmap of 2000000 x 64 float32, 2048 units")
    peak = memory["RBFClassifier: peak resident memory, GiB"]
    return (
        f"Fits MNIST in {seconds(of['RBFClassifier(), uint8: fit, s'])} on two cores, versus "
        f"{seconds(of[SAMPLER + ': fit, s'])} for ``RBFSampler`` and ``RidgeClassifier``;\n"
        f"two million samples from a file in {peak:.1f} GiB.\n"
    )


def probabilities():
    of, ways = results_of(PROBABILITIES), ["sigmoid", "temperature"]
    rows = []
    for data in ("MNIST", "letter"):
        for name in ("RBFClassifier", "TanhClassifier"):
            start = f"{data}, {name}(2048): "
            peer = start + "log-loss of CalibratedClassifierCV, "
            losses = [of[start + "log-loss"], *(of[peer + way] for way in ways)]
            ratios = [f"{of[f'{start}its fit / ours, {way}']:.2f}" for way in ways]
            shown = best_in_bold(losses, "{:.3f}".format, min)
            rows.append([f"{data}, ``{name}``", *shown, *ratios])
    head = ["log-loss, 2048 units", "``predict_proba``", *ways]
    return rst([*head, *(f"fit / ours, {way}" for way in ways)], rows)


def startup():
    """Return the times of the first fit and of the import, with a baseline."""
    of, rows = results_of("startup", CORES), []
    for name in ("RBFClassifier()", "TanhClassifier(50)"):
        key = name.partition("(")[0]
        first, later = (
            seconds(of[f"{key}: {when}, s"])
            for when in ("first fit and predict, compiled", "in the next process")
        )
        rows.append([f"``{name}``, first fit on a new machine", first, f"next process: {later}"])
    ours, base = (seconds(of[f"import {each}, s"]) for each in ("sklearn_fsvc", "sklearn"))
    rows.append(["``import sklearn_fsvc``", ours, f"``import sklearn``: {base}"])
    return rst(["", "time", "baseline"], rows)


def grouped(title, file=CORES):
    """Return the results of a benchmark, {model: {score: value}}, of names "model: score"."""
    result = {}
    for key, value in results_of(title, file).items():
        name, colon, score = key.rpartition(": ")
        if colon:
            result.setdefault(name, {})[score] = value
    return result


def in_code(name):
    """Return the name of a method, with calls and assignments as code."""
    return re.sub(r'(\w+\(\)|\w+="\w+")', r"``\1``", name)


def scores_of(title, columns, file=CORES):
    """Return a table, a line per method; `columns` is {score: (heading, the best, format)}."""
    of = grouped(title, file)
    cells = [
        best_in_bold([scores.get(score, float("nan")) for scores in of.values()], show, best)
        for score, (_, best, show) in columns.items()
    ]
    head = ["", *(heading for heading, _, _ in columns.values())]
    return rst(head, zip(map(in_code, of), *cells, strict=True))


def imbalance():
    three, four = "{:.3f}".format, "{:.4f}".format
    columns = {
        "F1": ("F1", max, three),
        "F1, tuned threshold": ("F1, tuned threshold", max, three),
        "ROC AUC": ("AUC", max, three),
        "average precision": ("average precision", max, three),
        "log-loss": ("log-loss", min, four),
    }
    return scores_of("imbalance: one positive sample in 201", columns, "zen4_2cores")


def packaged_wins():
    """Return on how many datasets of packages the ensemble is better than LightGBM."""
    ensembles = [grouped(*each)["StackedClassifier"] for each in PACKAGED.values()]
    won, lost = (sum(int(each[what]) for each in ensembles) for what in ("won", "lost"))
    return (
        f"On {won} of {won + lost} datasets from R packages (at most 1000 rows) and KEEL, the "
        "stacked ensemble has a lower log-loss than\nLightGBM, whose defaults are meant for more "
        "samples, or a lower squared error in regression.\n"
    )


def packaged(source):
    """Return a table of methods on the datasets of packages, best first."""
    of = grouped(*PACKAGED[source])
    score = "R2" if "R2" in of["LightGBM"] else "accuracy"
    methods = sorted(of, key=lambda method: of[method][score], reverse=True)
    names = methods
    if score == "R2":
        names = [COUNTERPARTS.get(n, n).replace("logistic", "ridge") for n in methods]
    columns = {"": [output_name(name, "``") for name in names]}
    for name in ("R2", "accuracy", "log-loss", "AUC"):
        if name in of["LightGBM"]:
            scale, best, show = SCALES["log_loss"] if name == "log-loss" else (100, max, percent)
            heading = METRICS["regression"] if name == "R2" else name
            columns[heading] = best_in_bold([scale * of[m][name] for m in methods], show, best)
    columns["won : lost against LightGBM"] = [
        f"{of[m]['won']:.0f} : {of[m]['lost']:.0f}" if "won" in of[m] else "" for m in methods
    ]
    return rst(list(columns), zip(*columns.values(), strict=True))


def with_trees(task):
    columns = {"score": (METRICS[task], max, percent)}
    if task == "classification":
        columns["log-loss"] = ("log-loss", min, "{:.3f}".format)
    columns["best on"] = ("best on", max, "{:.0f}".format)
    return scores_of(f"with trees: {task}", columns, "zen4_2cores")


def distillation():
    rows = []
    for units in (300, 1000):
        of = grouped(f"distillation: students of {units} units")
        teachers = [
            name for name, scores in of.items() if len(scores) == 1 and "labels" not in name
        ]
        for kind in ("tanh", "RBF"):
            alone = of[f"{kind}, labels only"]["accuracy, %"]
            for teacher in teachers:
                student = of[f"{kind}, distilled from {teacher}"]
                ratios = [student[f"times as fast, {what}"] for what in ("batch", "one sample")]
                rows.append([
                    f"{units} {kind} units", in_code(teacher), percent(of[teacher]["accuracy, %"]),
                    percent(student["accuracy, %"]), percent(alone),
                    *(f"{ratio:.0f}" for ratio in ratios),
                ])  # fmt: skip
    accuracies = ["accuracy of the teacher", "of the student", "labels only"]
    return rst(["student", "teacher", *accuracies, "times as fast, batch", "one sample"], rows)


def time_series():
    of = grouped("time series: MiniRocket features, accuracy in %", CORES_OF_FEW)
    datasets = [name for name in next(iter(of.values())) if name != "fit, s"]
    rows = [
        [name, *best_in_bold([scores[name] for scores in of.values()], "{:.1f}".format)]
        for name in datasets
    ]
    return rst(["dataset", *(f"``{name}``" for name in of)], rows)


def generators():
    of = grouped("generators", CORES_OF_FEW)
    kinds = (
        "RBF network", "tanh network", "stacked ensemble", "linear model", "SVC, SVR", "trees"
    )  # fmt: skip
    rows = [
        [name, *best_in_bold(list(scores.values()), "{:.1f}".format)] for name, scores in of.items()
    ]
    return rst(["data", *kinds], rows)


def repeated_values():
    of = grouped("mean targets of repeated values", CORES_OF_FEW)
    rows = []
    for name, scores in of.items():
        pairs = [
            [scores[f"{each}, {way}, %"] for way in ("without", "with")] for each in ("RBF", "Tan")
        ]
        rows.append(
            [name, *(text for pair in pairs for text in best_in_bold(pair, "{:.1f}".format))]
        )
    return rst(["data", "RBF without", "RBF with", "tanh without", "tanh with"], rows)


def rules():
    of = grouped("rules: 4000 training samples", CORES)
    rows = [
        [name, *best_in_bold(list(scores.values()), "{:.1f}".format)] for name, scores in of.items()
    ]
    models = [output_name(score.removesuffix(", %"), "``") for score in of["mean"]]
    return rst(["rule", *models], rows)


def splits():
    sizes, tasks = (60, 150, 500), ("classification", "regression")
    names = {
        "RBFClassifier": "RBF network", "TanhClassifier": "tanh network",
        "StackedClassifier": "stacked ensemble", "RandomForest": "random forest",
        "SVC": "SVC, SVR", "logistic regression": "logistic regression, ridge",
    }  # fmt: skip
    of = {
        (task, n): grouped(f"splits: {n} samples, {task}", CORES_OF_FEW)
        for task in tasks for n in sizes
    }  # fmt: skip
    rows = []
    for name, at_150 in of["regression", 150].items():
        method, comma, count = name.partition(", ")
        deviation = f"{at_150['between seeds, %']:.1f}" if count else ""
        scores = [f"{scores[name]['score, %']:.1f}" for scores in of.values()]
        rows.append([
            names[method] + comma + count, *scores, f"{at_150['fit, s']:.2f} s", deviation
        ])  # fmt: skip
    heads = [f"{METRICS[task]}, {n}" for task, n in of]
    return rst(["", *heads, "fit, 150", "R² between seeds, 150"], rows)


def faster_fits():
    of = [
        grouped(f"RBF networks with fewer automatic choices, {task}", CORES_OF_FEW)
        for task in METRICS
    ]
    rows = []
    for name in of[0]:
        texts = (
            text
            for scores in (each[name] for each in of)
            for text in (f"{scores['score, %']:.1f} %", f"{scores['fit, s']:.1f} s")
        )
        rows.append([in_code(name), *texts])
    heads = [head for metric in METRICS.values() for head in (metric, "fit, median")]
    return rst(["", *heads], rows)


def ordered_classes():
    n_samples = (500, 2000)
    of = [grouped(f"ordered classes: {n} samples", "zen4_2cores") for n in n_samples]
    rows = []
    for name in of[0]:
        network, comma, rest = name.partition(", ")
        label = output_name(network, "``")
        rest = rest if "=" not in rest else f"``{rest}``"
        scores = [each[name] for each in of]
        rows.append([
            label + comma + rest,
            *(f"{one['accuracy, %']:.1f}" for one in scores),
            *(f"{one['log-loss']:.3f}" for one in scores),
            *(f"{one['fit, s']:.1f} s" for one in scores),
        ])  # fmt: skip
    measured = ("accuracy", "log-loss", "fit")
    return rst(["", *(f"{what}, {n}" for what in measured for n in n_samples)], rows)


def intervals():
    names = {
        "StackedRegressor": "``StackedRegressor``", "RBFRegressor": "``RBFRegressor``",
        "TanhRegressor": "``TanhRegressor``",
        "MAPIE CV+, RBFRegressor": "MAPIE (CV+), around ``RBFRegressor``",
        "LightGBM": "LightGBM, quantile loss",
        "LightGBM, conformalised": "LightGBM, conformalised",
        "CatBoost": "CatBoost, quantile loss", "ChimeraBoost": "ChimeraBoost, quantile loss",
    }  # fmt: skip
    rows = []
    for title, name in names.items():
        of = grouped(f"intervals: {title}", "zen4_2cores")
        mean = of.pop("mean")
        held = [scores["coverage, %"] for scores in of.values()]
        rows.append([
            name, f"{mean['coverage, %']:.1f} %", f"{min(held):.1f} to {max(held):.1f} %",
            f"{mean['width / std of y']:.2f}", f"{mean['pinball loss / std of y, %']:.2f}",
        ])  # fmt: skip
    heads = ["", "coverage, mean", "range over 8 datasets", "width", "pinball loss, %"]
    return rst(heads, rows)


def prediction_sets():
    """Return coverage and sizes of sets, those of 90 % sets on datasets that are difficult."""
    names = {
        "StackedClassifier": "``StackedClassifier``", "RBFClassifier": "``RBFClassifier``",
        "TanhClassifier": "``TanhClassifier``",
        "MAPIE, split, RBFClassifier": "MAPIE, a fifth held out, around ``RBFClassifier``",
        "MAPIE, 5 folds, RBFClassifier": "MAPIE, 5 folds, around ``RBFClassifier``",
    }  # fmt: skip
    rows = []
    for title, name in names.items():
        of = grouped(f"prediction sets: {title}", "zen4_2cores")
        mean = of.pop("mean")
        difficult = [scores for scores in of.values() if scores["accuracy, %"] < 90]
        covered = [scores["coverage, % at 90 %"] for scores in difficult]
        sizes = [scores["classes per set at 90 %"] for scores in difficult]
        rows.append([
            name, f"{min(covered):.1f} to {max(covered):.1f} %", f"{sum(sizes) / len(sizes):.2f}",
            f"{mean['coverage, % at 99 %']:.1f} %", f"{mean['classes per set at 99 %']:.2f}",
            f"{mean['empty sets, % at 90 %']:.1f} %",
        ])  # fmt: skip
    heads = [
        "", "coverage of 90 % sets", "classes", "coverage of 99 % sets", "classes",
        "empty 90 % sets",
    ]  # fmt: skip
    return rst(heads, rows)


def large_fits():
    images = grouped("1000000 x 784 bytes, 8192 units", "h200")
    floats = grouped("10500000 x 28 float32, 8192 units", "h200")
    rows = [
        [
            name, f"{scores['fit, s']:.2f} s", f"{scores['predict 1000000, s']:.2f} s",
            f"{scores['accuracy, %']:.1f} %", f"{floats[name]['fit, s']:.1f} s",
            f"{floats[name]['predict 500000, s']:.2f} s",
        ] for name, scores in images.items()
    ]  # fmt: skip
    heads = ["8192 units", "fit", "predict", "training accuracy", "fit, floats", "predict 500,000"]
    return rst(heads, rows)


BLOCKS = {
    "intervals": intervals,
    "prediction-sets": prediction_sets,
    "large-fits": large_fits,
    "imbalance": imbalance,
    **{source: partial(packaged, source) for source in PACKAGED},
    "packaged-wins": packaged_wins,
    "with-trees": partial(with_trees, "classification"),
    "with-trees-regression": partial(with_trees, "regression"),
    "distillation": distillation,
    "time-series": time_series,
    "generators": generators,
    "repeated-values": repeated_values,
    "rules": rules,
    "splits": splits,
    "faster-fits": faster_fits,
    "ordered-classes": ordered_classes,
    "front-tables": front_tables,
    "card-tables": card,
    "card-memory": card_of_memory,
    "boosting": partial(standings, "classification"),
    "boosting-numbers": partial(standings, "regression"),
    "best-methods": best_methods,
    "boosting-large": partial(standings, "classification", "large", "cuda"),
    "large-without-kddcup": without_kddcup,
    "accuracy-per-dataset": partial(per_dataset, "classification"),
    "log-loss-per-dataset": partial(per_dataset, "classification", "log_loss"),
    "auc-per-dataset": partial(per_dataset, "classification", "auc"),
    "r2-per-dataset": partial(per_dataset, "regression"),
    "trees": trees,
    "mnist": mnist,
    "probabilities": probabilities,
    "startup": startup,
}


def filled(text):
    """Return the text of a page with its blocks generated anew."""

    def fill(block):
        indent, begin, name, _, end = block.groups()
        lines = ["", *BLOCKS[name]().splitlines(), ""]
        inner = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)
        return f"{indent}{begin}{inner}{indent}{end}"

    return BLOCK.sub(fill, text)


def main(check):
    """Write the pages; with `check` print outdated ones, and return whether there are any."""
    stale = [page for page in PAGES if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{page}: {'differs from results/' if check else 'written'}")
        if not check:
            page.write_text(filled(page.read_text()))
    return bool(check and stale)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
