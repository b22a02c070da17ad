"""Summary of a file of results: means, ranks and times by method, largest gains and losses."""

from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import gmean, rankdata

from _tabular_data import LEAKY
from _tabular_methods import METHODS

BASELINE = METHODS["lightgbm"].label
SCORES = {"classification": "accuracy, %", "regression": "R^2, %"}
REGRESSORS = {"Classifier": "Regressor", "SVC": "SVR", "logistic": "ridge"}
COLUMNS = (
    "set", "split", "method", "variant", "task", "n_train", "n_test", "n_features", "error",
    "log_loss", "auc", "fit_s", "tuning_s", "predict_s", "failure",
)  # fmt: skip
TIME, MEDIAN = "fit, s (geometric)", "fit, s (median)"
SHOWN = 4  # datasets listed as largest gains and losses


def label(record):
    """Return the displayed name of a method, with its number of units if given."""
    name, _, units = record["method"].partition(":")
    text = METHODS[name].label
    if record["task"] == "regression":
        for word, other in REGRESSORS.items():
            text = text.replace(word, other)
    text += f", {units} units" if units else ""
    return text if record["variant"] == "default" else f"{text}, {record['variant']}"


def compared(records, methods=None, sets=None, tuned=True):
    """Return selected records as a DataFrame, with score in % and total time."""
    results = pd.DataFrame(records, columns=COLUMNS)
    results["registered"] = results.method.str.partition(":")[0]
    chosen = results.registered.isin(METHODS if methods is None else methods)
    chosen &= True if sets is None else results["set"].isin(sets)
    chosen &= tuned | (results.variant == "default")
    if not chosen.any():
        raise SystemExit("no results of these methods and datasets")
    results = results[chosen].copy()
    results["name"] = [label(record) for _, record in results.iterrows()]
    results["ours"] = [METHODS[name].ours for name in results.registered]
    results["score"] = 100 * (1 - results.error)
    results["total_s"] = results.fit_s + results.tuning_s.fillna(0.0)
    order = results.registered.map(list(METHODS).index)
    return results.assign(order=order).sort_values(["order", "method", "variant"])


def wide(results, value):
    """Return a table of splits by methods, in the order of the registry."""
    table = results.pivot(index=["set", "split"], columns="name", values=value)
    return table[results.name.unique()].rename_axis(columns=None)


def by_set(results, value):
    """Return means over the splits, NaN if one is missing."""
    sets = wide(results, value).groupby("set")
    return sets.agg(lambda column: column.mean(skipna=False))


def complete(results):
    """Return datasets with all results of all methods, and {dataset: incomplete methods}."""
    is_missing = wide(results, "score").isna().groupby("set").any()
    missing = {
        name: list(is_missing.columns[row]) for name, row in is_missing.iterrows() if row.any()
    }
    return [name for name in is_missing.index if name not in missing], missing


def standing(results):
    """Return one row per method, over the datasets that are complete and have no leak."""
    counted = [name for name in complete(results)[0] if name not in LEAKY]
    results = results[results["set"].isin(counted)]
    if results.empty:
        return pd.DataFrame()
    of_sets = by_set(results, "score")
    times, losses = wide(results, "total_s"), by_set(results, "log_loss")
    areas = by_set(results, "auc").dropna(how="all")  # of binary classification
    return pd.DataFrame({
        "score": of_sets.mean(),
        "rank": rankdata(-of_sets.round(9), axis=1).mean(axis=0),
        "won-lost": [_won_lost(of_sets, name) for name in of_sets],
        TIME: gmean(times),
        MEDIAN: times.median(),
        "predict, s": gmean(wide(results, "predict_s")),
        "log-loss": losses.mean(skipna=False),
        "its rank": losses.rank(axis=1).mean(skipna=False),
        "AUC, %": 100 * areas.mean(skipna=False),
    })  # fmt: skip


def _won_lost(of_sets, name):
    """Return on how many datasets a method is better and worse than LightGBM's defaults."""
    if BASELINE not in of_sets or name == BASELINE:
        return "-"
    gain = of_sets[name] - of_sets[BASELINE]
    return f"{(gain > 0).sum()}-{(gain < 0).sum()}"


def summary(results):
    """Return the text for both tasks."""
    parts = []
    for task, group in results.groupby("task"):
        parts += [_means(group, SCORES[task]), _by_set(group, SCORES[task])]
    failed = results[results.failure.notna()]
    if len(failed):
        lines = [f"{r.set} {r.split}  {r.name}: {r.failure}" for r in _tuples(failed)]
        parts.append("\n".join([_head(f"{len(failed)} fits failed"), *lines]))
    return "\n\n".join(parts)


def _tuples(frame):
    return frame[["set", "split", "name", "failure"]].itertuples(index=False)


def _means(results, metric):
    whole, missing = complete(results)
    counted = [name for name in whole if name not in LEAKY]
    lines = [_head(f"{metric}: means over {len(counted)} of {results['set'].nunique()} datasets")]
    if len(counted):
        table = standing(results).sort_values("score", ascending=False)
        table = table.dropna(axis=1, how="all")  # regression has no log-loss
        lines.append(_text(table.rename(columns={"score": metric})))
        lines.append(
            "Rank and won-lost (against LightGBM's defaults) are by set, means of its splits;\n"
            "AUC is that of sets of two classes.\n"
            "Time to fit is with preprocessing and tuning; times are over all splits."
        )
    leaky = [name for name in whole if name in LEAKY]
    if leaky:
        lines.append(f"Not in the means, since random splits leak: {', '.join(leaky)}")
    for name, methods in missing.items():
        lines.append(f"Not in the means: {name}, which lacks {'; '.join(methods)}")
    return "\n".join(lines)


def _by_set(results, metric):
    """Return the scores by dataset, sorted by the gain of our first method over LightGBM."""
    table = by_set(results, "score")
    ours = list(results.name[results.ours].unique())
    peers = table.drop(columns=ours)
    shown = table[ours].copy()
    if BASELINE in peers:
        shown[BASELINE] = peers[BASELINE]
        if ours:
            shown["gain"] = shown[ours[0]] - shown[BASELINE]
            shown = shown.sort_values("gain", ascending=False)
    some = peers.dropna(how="all")
    shown["best other"] = some.max(axis=1)
    shown["which"] = some.idxmax(axis=1)
    shown.insert(0, "rows", results.groupby("set").n_train.max())
    shown.index = [f"{name} *" if name in LEAKY else name for name in shown.index]
    lines = [_head(f"{metric}, by dataset"), _text(shown)]
    if BASELINE in peers:
        lines += [_gains(name, table[name] - table[BASELINE]) for name in ours]
    return "\n".join(lines)


def _gains(name, gain):
    """Return a sentence on the largest gains and losses."""
    gain = gain.dropna().sort_values()
    most, least = gain[gain > 0][::-1][:SHOWN], gain[gain < 0][:SHOWN]
    listed = [
        ", ".join(f"{set_} {value:+.2f}" for set_, value in part.items()) or "none"
        for part in (most, least)
    ]
    return (
        f"{name}: above LightGBM's defaults on {(gain > 0).sum()} of {len(gain)} datasets, below on"
        f" {(gain < 0).sum()}.\n  Most above: {listed[0]}.\n  Most below: {listed[1]}."
    )


def _head(text):
    return f"{text}\n{'-' * len(text)}"


def _number(value, digits):
    return "-" if pd.isna(value) else f"{value:.{digits}f}"


def _text(table):
    """Format with two decimals, times with three significant digits."""
    formats = {
        name: _seconds if ", s" in name else partial(_number, digits=_digits(name))
        for name in table.select_dtypes(np.number)
    }
    return table.to_string(formatters=formats, na_rep="-")


def _digits(name):
    return {"rows": 0, "log-loss": 3}.get(name, 2)


def _seconds(value):
    return "-" if pd.isna(value) else f"{value:.3g}"
