"""A resumable run over datasets, splits and methods that stores each result at once."""

import json
import time

from _tabular_data import read_table, splits
from _tabular_fit import measure, warm_up
from sklearn_fsvc._src.engines.host import processor_name

KEY = ("set", "split", "method", "variant")


def read_results(path):
    """Return the records of a file, the last one of each fit."""
    lines = path.read_text().splitlines() if path.exists() else ()
    records = map(json.loads, lines)
    return list({tuple(record[name] for name in KEY): record for record in records}.values())


def variants(methods, tuned):
    """Return [(name, method, "default" or "tuned")] of the methods {name: method}."""
    return [
        (name, method, variant)
        for name, method in methods.items()
        for variant in ("default", "tuned")
        if variant == "default" or (tuned and method.space)
    ]


def run(paths, methods, file, *, track, device, tuned, part=(1, 1), hours=None, n_hidden=None):
    """Run fits that are missing in `file` or failed; return whether it is complete."""
    end = time.monotonic() + 3600 * (hours or float("inf"))
    done = {
        tuple(record[name] for name in KEY)
        for record in read_results(file)
        if "failure" not in record
    }
    warm = set()
    for table, split, pair in _splits_of_part(paths, track, part):
        for name, method, variant in variants(methods, tuned):
            label = _with_units(name, method, n_hidden)
            is_done = (table.name, split, label, variant) in done
            if is_done or method.factory(table.task) is None:
                continue
            if time.monotonic() > end:
                print(f"stopped after {hours} hours: run again to continue", flush=True)
                return False
            options = {"n_hidden": n_hidden} if method.ours and n_hidden else {}
            if (name, table.task) not in warm:
                warm_up(method, table, pair[0], device, options)
                warm.add((name, table.task))
            record = dict(zip(KEY, (table.name, split, label, variant), strict=True))
            record |= {"task": table.task, "machine": processor_name()}
            record |= measure(method, variant, table, split, pair, device, options)
            with file.open("a") as lines:
                lines.write(json.dumps(record) + "\n")
            print(_line(record), flush=True)
    return True


def _splits_of_part(paths, track, part):
    """Yield (dataset, number of the split, its rows) of every n-th split from the i-th."""
    i, n = part
    count = 0
    for path in paths:
        table = read_table(path)
        for split, pair in enumerate(splits(table, track)):
            if count % n == i - 1:
                yield table, split, pair
            count += 1


def _with_units(name, method, n_hidden):
    """Return the name of a method, with the size of our networks if given."""
    return f"{name}:{n_hidden}" if method.ours and n_hidden else name


def _line(record):
    head = "{set} {split}  {method}, {variant}:".format(**record)
    if "failure" in record:
        return f"{head} FAILED, {record['failure']}"
    tuning = f" + tuning {record['tuning_s']:.1f} s" if "tuning_s" in record else ""
    times = f"fit {record['fit_s']:.3g} s{tuning}, predict {record['predict_s']:.3g} s"
    return f"{head} {100 * (1 - record['error']):.2f} %, {times}"
