"""Compare fits and predictions of two commits.

python benchmarks/commits.py [--commit REF] [--now HEAD] [--rounds 15] [--names NAME;...]
    [--json FILE]

Each version runs in a process of its own, from an export of git; both run the same task in each
round, in alternating order. Kernel, width, feature weights and penalty are given, since their
automatic selection has changed; except in the fits "as made", for commits between which it has not.
Values are ratios of medians, and of minima, which other processes disturb less: above 1 the later
commit is slower.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve()
# The last commit before online models were made safe in threads, and features of any size.
BEFORE = "12dd80b~1"
ROWS, N_SINGLE = 20_000, 200


def works():
    """Yield (name, function) of each task."""
    import numpy as np

    from sklearn_fsvc import RBFClassifier, RBFRegressor, TanhClassifier, TanhProjector

    rng = np.random.default_rng(0)
    X = {n: rng.normal(size=(ROWS, n)).astype(np.float32) for n in (10, 100, 784)}
    y = {n: (rows[:, 0] > rows[:, 1]).astype(int) for n, rows in X.items()}
    given = {"alpha": 1.0, "feature_weights": None, "random_state": 0, "device": "cpu"}
    rbf = {"kernel": "gaussian", "radius": 20.0, "selection": "random"}
    for n in X:
        tanh = TanhClassifier(1000, **given).fit(X[n][:2000], y[n][:2000])  # for `predict` alone
        yield f"tanh, {n} features, fit", lambda m=tanh, n=n: m.fit(X[n], y[n])
        yield f"tanh, {n} features, predict", lambda m=tanh, n=n: m.predict(X[n])
    for kind in (RBFClassifier, RBFRegressor):
        model = kind(1000, **(given | rbf)).fit(X[10][:2000], y[10][:2000])
        yield f"{kind.__name__}, fit", lambda m=model: m.fit(X[10], y[10])
        yield f"{kind.__name__}, predict", lambda m=model: m.predict(X[10])
    for n in (100, 500):
        for kind in (RBFClassifier, RBFRegressor, TanhClassifier):
            model = kind(random_state=0, device="cpu")
            name = f"{kind.__name__} as made, {n} samples, fit"
            yield name, lambda m=model, n=n: m.fit(X[10][:n], y[10][:n])
    small = TanhClassifier(100, **given).fit(X[10], y[10])

    def one_by_one():
        for row in range(N_SINGLE):
            small.predict(X[10][row : row + 1])

    def stream():
        model = TanhClassifier(500, **given)
        for start in range(0, ROWS, 500):
            rows = slice(start, start + 500)
            model.partial_fit(X[10][rows], y[10][rows], classes=[0, 1])
        model.predict(X[10][:1])

    yield "one row at a time, predict", one_by_one
    yield "batches of 500 rows, partial_fit", stream
    projector = TanhProjector(100, random_state=0, device="cpu").fit(X[100])
    yield "TanhProjector, transform", lambda: projector.transform(X[100])


def serve():
    """Run the task that is named on each input line, and print its seconds."""
    known = dict(works())
    print(*known, sep="\t", flush=True)
    for line in sys.stdin:
        work = known[line.strip()]
        start = time.perf_counter()
        work()
        print(time.perf_counter() - start, flush=True)


class Version:
    """The process of one version, which runs tasks by name."""

    def __init__(self, folder, stack):
        environment = os.environ | {
            "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / ".compiled"),
        }  # fmt: skip
        # From elsewhere, or this checkout's package would be found first.
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-P", str(HERE), "--serve"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env=environment, cwd=folder,
            )
        )  # fmt: skip
        stack.callback(self._process.kill)
        self.names = self._process.stdout.readline().strip().split("\t")

    def seconds(self, name):
        print(name, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def unpack(ref, folder):
    folder.mkdir()
    packed = subprocess.run(
        ["git", "archive", ref, "sklearn_fsvc"],
        cwd=HERE.parents[1],
        check=True,
        capture_output=True,
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    return folder


def main(args):
    from _report import report

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        now, before = (
            Version(unpack(ref, folder / name), stack)
            for name, ref in (("now", args.now), ("before", args.commit))
        )
        names = args.names.split(";") if args.names else now.names
        rows = []
        for name in names:
            for version in (now, before):
                version.seconds(name)  # compiled, and warm
            times = {now: [], before: []}
            for number in range(args.rounds):
                for version in (now, before) if number % 2 else (before, now):
                    times[version].append(version.seconds(name))
            for what, of in (("", statistics.median), (", least times", min)):
                rows.append((f"{name}{what}: now / before", of(times[now]) / of(times[before])))
                print(*rows[-1], flush=True)
        report(args, f"{args.now} beside {args.commit}", rows)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        from _report import arguments

        main(
            arguments(
                commit={"default": BEFORE},
                now={"default": "HEAD", "help": "the later commit"},
                rounds={"type": int, "default": 15},
                names={"default": None, "help": "some of the works, with a semicolon between them"},
            )
        )
