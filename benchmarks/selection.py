"""Compare novelty selection with its blockwise definition: evaluated pairs, and time.

python benchmarks/selection.py --data DIR [--device cuda] [--json FILE]

See `_data.py` for DIR. Block by block, each sample is compared with all centres of the preceding
blocks. Both select the same centres, which is asserted: all novel samples at the selection radius
that gives about 4096 centres, among all samples and per class.
"""

from pathlib import Path

import numpy as np

from _data import read_letter
from _report import arguments, report
from sklearn_fsvc._src.demo import load_images
from sklearn_fsvc._src.engines import get_engine
from sklearn_fsvc._src.hidden_layers.novelty import min_centers, novel_rows
from sklearn_fsvc._src.hidden_layers.ordered_samples import NoveltyRule, OrderedSamples
from sklearn_fsvc._src.hidden_layers.radius import (
    GROUP_GROWTH,
    GROWTH,
    search_radius,
    typical_distance,
)
from sklearn_fsvc._src.kernels import TRIANGULAR
from sklearn_fsvc._src.tuning import medians

CENTERS = 4096
# Samples of a block, and centres that they are compared with at a time.
BLOCK, CHUNK = {"cpu": 1024, "cuda": 8192}, 1024


class Counted:
    """An engine that counts the pairs of rows and units it evaluates."""

    def __init__(self, engine):
        self._engine, self._hidden, self.pairs = engine, engine.hidden, 0
        engine.hidden = self._count

    def _count(self, prepared, X, *args, **kwargs):
        self.pairs += len(X) * prepared.layer.n_units
        return self._hidden(prepared, X, *args, **kwargs)

    def during(self, function):
        """Return the number of pairs of a call, and its result."""
        self.pairs = 0
        return function(), self.pairs


def block_by_block(samples, rule, n_rows):
    """Return positions of the novel samples by the blockwise definition."""
    engine, xp = samples.engine, samples.engine.xp

    def prepare(rows):
        return engine.prepare(rule.layer(xp.ascontiguousarray(rows)))

    full, rest, results = [], None, []
    for start in range(0, len(samples), n_rows):
        block = samples.block(slice(start, start + n_rows))
        activity = xp.zeros(len(block))
        has_rest = rest is not None and len(rest)
        for chunk in [*full, *([prepare(rest)] if has_rest else [])]:
            activity += engine.hidden(chunk, block).sum(axis=1, dtype=np.float64)
        under = xp.flatnonzero(activity < rule.overlap)
        if not len(under):
            continue
        rows = block[under]
        kept = engine.select_novel(rule.layer(rows), rows, activity[under], rule.overlap)
        results.append(start + engine.to_host(under)[kept])
        rest = rows[kept] if rest is None else xp.concatenate([rest, rows[kept]])
        while len(rest) >= CHUNK:
            full.append(prepare(rest[:CHUNK]))
            rest = rest[CHUNK:]
    return np.concatenate(results)


def in_blocks(samples, rule, n_rows):
    """`block_by_block` in each group."""
    results = [at[block_by_block(group, rule, n_rows)] for at, group in samples.by_group()]
    return np.sort(np.concatenate(results))


def rule_at(radius):
    return NoveltyRule("manhattan", "triangular", radius, 1.0)


def radius_of_centers(samples):
    """Return the selection radius that gives about `CENTERS`."""
    start = TRIANGULAR.natural_radius(typical_distance(samples, "manhattan"))
    growth = GROWTH if samples.groups is None else GROUP_GROWTH
    radius, *_ = search_radius(
        lambda radius: novel_rows(samples, rule_at(radius), CENTERS),
        0.9 * start, CENTERS, len(samples), growth, min_centers(samples, 1.0),
    )  # fmt: skip
    return radius


def data_sets(folder):
    X, y, _, _, _ = load_images(folder)
    yield "MNIST, uint8", X, y
    X, y, _, _ = read_letter(folder)
    yield "letter, float32", X.astype(np.float32), y


def compare(engine, samples, n_rows):
    rule = rule_at(radius_of_centers(samples))
    functions = {
        "living set": lambda: novel_rows(samples, rule)[0],
        "block by block": lambda: in_blocks(samples, rule, n_rows),
    }
    counted = Counted(engine)
    results, pairs = zip(
        *(counted.during(function) for function in functions.values()), strict=True
    )
    np.testing.assert_array_equal(*results)
    seconds = medians(functions, stopwatch=engine.stopwatch)
    rows = [("centres", len(results[0]))]
    for name, n in zip(functions, pairs, strict=True):
        rows += [(f"{name}: pairs, millions", n / 1e6), (f"{name}: s", seconds[name])]
    active_seconds, block_seconds = seconds.values()
    rows.append(("pairs / block by block", pairs[0] / pairs[1]))
    return [*rows, ("time / block by block", active_seconds / block_seconds)]


def main(args):
    with get_engine(args.device) as engine:
        for name, X, y in data_sets(args.data):
            order = np.random.default_rng(0).permutation(len(X))
            X = engine.upload_if_fits(X, engine.memory()[0] // 8)
            classes = np.unique(y, return_inverse=True)[1]
            for scope, groups in (("among all rows", None), ("in each class", classes)):
                samples = OrderedSamples(engine, X, order, groups)
                n_rows = BLOCK["cuda" if engine.name.startswith("cuda") else "cpu"]
                title = f"selection: {name}, {scope}, device {args.device}"
                report(args, title, compare(engine, samples, n_rows))


if __name__ == "__main__":
    main(arguments(data={"required": True, "type": Path}, device={"default": "jit"}))
