"""Accuracy and time on tables: ours, gradient boosting, forests, kernel machines, linear models.

python benchmarks/tabular.py --data DIR [--track small|large] [--methods a,b] [--sets a,b]
    [--no-tuned] [--results FOLDER] [--device cpu|cuda] [--part 1/4] [--n-hidden N] [--hours H]
python benchmarks/tabular.py --summary [--picture FILE] [--track ...] [--results FOLDER]

DIR holds tabular/*.npz, or is that folder; `_tabular_data.py` says what a file holds. Splits are
those of the source, else three of 75 to 25 %. The small track trains on at most 4,000 rows, the
large one on all; at most 50,000 rows are tested. "tuned" is the best of 20 random configurations on
a fifth of the training rows (of 20,000 of them at most), fitted again on all; ours has no such
variant. SVC trains on at most 20,000 rows. Preprocessing is part of a method and of its time.
Every library takes the threads that it takes by itself, and nothing is set that slows one down:
run it on an idle machine. Where a library takes one core unless told otherwise, it is told to
take all. `taskset` gives all of them the same cores of a larger machine.

Each result is a line of FOLDER/TRACK-DEVICE.jsonl at once. Run again to go on after a stop, and to
try again what failed. `--part i/n` takes every n-th split, for several machines; their files
can be joined by `cat`.
"""

import argparse
from pathlib import Path

from _tabular_data import TRACKS, find_tables
from _tabular_methods import METHODS
from _tabular_picture import draw
from _tabular_run import read_results, run
from _tabular_summary import compared, summary


def part(text):
    i, n = (int(number) for number in text.split("/"))
    if not 1 <= i <= n:
        raise ValueError
    return i, n


def names(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="folder of the tables")
    parser.add_argument("--track", choices=TRACKS, default="small")
    parser.add_argument("--methods", type=names, help=f"of {','.join(METHODS)}; all by default")
    parser.add_argument("--sets", type=names)
    parser.add_argument("--tuned", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--results", type=Path, default=Path("tabular-results"))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--part", type=part, default=(1, 1), help="i/n, i from 1")
    parser.add_argument("--n-hidden", type=int, help="units of ours, instead of their own choice")
    parser.add_argument("--hours", type=float, help="start no fit after so many hours")
    parser.add_argument("--summary", action="store_true", help="only say what is in the file")
    parser.add_argument("--picture", type=Path, help="draw time against score into this file")
    args = parser.parse_args()
    if not args.summary:
        if args.data is None:
            parser.error("--data: name the folder of the tables")
        unknown = set(args.methods or ()) - METHODS.keys()
        if unknown:
            parser.error(
                f"--methods: no {', '.join(sorted(unknown))}; there is {','.join(METHODS)}"
            )
    return args


def main(args):
    file = args.results / f"{args.track}-{args.device}.jsonl"
    if not args.summary:
        methods = {name: METHODS[name] for name in args.methods or METHODS}
        args.results.mkdir(parents=True, exist_ok=True)
        run(
            find_tables(args.data, args.sets), methods, file,
            track=args.track, device=args.device, tuned=args.tuned, part=args.part,
            hours=args.hours, n_hidden=args.n_hidden,
        )  # fmt: skip
    results = compared(read_results(file), args.methods, args.sets, args.tuned)
    print(f"{args.track} track, {args.device}, {file}\n\n{summary(results)}")
    if args.picture:
        draw(results, args.picture, f"{args.track} track, {args.device}")


if __name__ == "__main__":
    main(arguments())
