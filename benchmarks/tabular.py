"""Compare accuracy and time on tabular data: boosting, forests, kernel and linear models.

python benchmarks/tabular.py --data DIR [--track small|large] [--methods a,b] [--sets a,b]
    [--no-tuned] [--results FOLDER] [--device cpu|cuda] [--part 1/4] [--n-hidden N] [--hours H]
python benchmarks/tabular.py --summary [--picture FILE] [--track ...] [--results FOLDER]

DIR contains tabular/*.npz, or is that folder; see `_tabular_data.py` for the format. Splits are
those of the source, else three of 75 to 25 %. The small track trains on up to 4,000 samples, the
large one on all; up to 50,000 samples are tested. "tuned" is the best of 20 random configurations,
validated on a fifth of the training samples (of up to 20,000), and refitted on all; our estimators
have no such variant. SVC trains on up to 20,000 samples. Preprocessing is part of a method and of
its time. Libraries use their default threads, or all cores if the default is one; no other setting
is changed. Run it on an idle machine. `taskset` restricts all of them to the same cores of a
larger machine.

Each result is appended to FOLDER/TRACK-DEVICE.jsonl at once. Run again to continue after an
interruption, and to retry failed fits. `--part i/n` runs every n-th split, for several machines;
concatenate their files with `cat`.
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
        limit = TRACKS[args.track]
        size = "all samples" if limit is None else f"up to {limit} training samples"
        draw(results, args.picture, f"{size}, {args.device.upper()}")


if __name__ == "__main__":
    main(arguments())
