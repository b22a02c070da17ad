"""Say what works on this machine, show a demo, measure settings, and export models."""

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

from ._src.data.tiling import format_bytes
from ._src.engines import CPU, accelerator, get_engine, known_engines, profiles
from ._src.engines.memory import host_memory
from ._src.engines.threads import n_threads
from ._src.version import __version__

# For each kind of layer and each repeat, on two cores of a laptop or on a GPU.
_MINUTES_TO_TUNE = 0.06
_DEVICE = "where layers are computed: auto, cpu, cuda or an engine that info lists (%(default)s)"


def info(args=None):
    """Print versions, the machine, and each engine: whether it works, and if not, why."""
    print(f"sklearn_fsvc {__version__}, Python {platform.python_version()}, {platform.machine()}")
    engines = known_engines()
    for package in ("scikit-learn", "numpy", "scipy", "joblib"):
        print(f"  {package:17}{_version(package)}")
    for package in dict.fromkeys(p for engine in engines.values() for p in engine.packages):
        print(f"  {package:17}{_version(package)}")
    free, total = host_memory()
    print(f"threads {n_threads()}, memory {format_bytes(free)} free of {format_bytes(total)}")
    print("engines")
    for name, engine in engines.items():
        reason = engine().why_unavailable()
        if reason is None:
            details = "works: " + engine().details() + "\n" + _profile(name)
            print(f"  {name:8}" + details.replace("\n", "\n" + " " * 10))
        else:
            print(f"  {name:8}no: {reason}")
    print(f"  cpu     is {CPU}")
    large = accelerator()
    if large is None:
        print(f"  auto    is {CPU}")
    else:
        size = f"{large.auto_work:.0e} rows x units x features"
        print(f"  auto    is {CPU}, and {large.name} from {size} on")


def _profile(name):
    """Which settings the engine uses here."""
    with get_engine(name) as engine:
        path, n_kinds = profiles.path_of(engine.identity()), len(engine.tuned)
    if not n_kinds:
        return "default settings; python -m sklearn_fsvc tune measures this machine"
    return f"settings measured here for {n_kinds} kinds of layers, {path}"


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def demo(args):
    """Fit both networks to handwritten digits, and draw what they predict wrongly."""
    from ._src.demo import run

    run(args.data, args.output, args.n_hidden, args.device, args.verbose)


def tune(args):
    """Measure which settings are fastest on this machine, and keep them."""
    from ._src.tuning import KINDS
    from ._src.tuning import tune as measure

    devices = (
        [args.device]
        if args.device
        else ["cpu", *filter(None, [accelerator() and accelerator().name])]
    )
    kinds = args.kind or KINDS
    for device in devices:
        print(_what_tune_takes(len(kinds), args.repeats), flush=True)
        try:
            measure(device, kinds, n_features=args.features, repeats=args.repeats, verbose=1)
        except KeyboardInterrupt:
            raise SystemExit(
                f"stopped; the lines above are kept in {_profile_of(device)}"
            ) from None
        print(f"kept in {_profile_of(device)}")


def _what_tune_takes(n_kinds, repeats):
    minutes = n_kinds * repeats * _MINUTES_TO_TUNE
    about = f"{minutes:.0f} minutes" if minutes > 1 else "a minute"
    return (
        f"{n_kinds} kinds of layers, about {about}. Each is kept as soon as its line is here; "
        "Ctrl-C stops the rest."
    )


def _profile_of(device):
    with get_engine(device) as engine:
        return profiles.path_of(engine.identity())


def export(args):
    """Write a saved model as a C header, for programs without Python."""
    from ._src.export.skops import export as write

    write(args.model, args.c, args.name)


def _about(command):
    return {"help": command.__doc__, "description": command.__doc__}


def _add_demo(commands):
    options = commands.add_parser("demo", **_about(demo))
    options.add_argument(
        "--data", metavar="FOLDER",
        help="with the four IDX files of MNIST (the small digits of scikit-learn)",
    )  # fmt: skip
    options.add_argument(
        "--output",
        metavar="FILE",
        help="where the picture goes (digits.png if matplotlib is installed)",
    )
    options.add_argument(
        "--n-hidden", type=int, help="hidden units of each network (600; 4096 with --data)"
    )
    options.add_argument("--device", default="auto", help=_DEVICE)
    options.add_argument(
        "--verbose", type=int, default=0, metavar="LEVEL",
        help="1 prints a line a second on long work, 2 all passes over the rows (%(default)s)",
    )  # fmt: skip


def _add_tune(commands):
    options = commands.add_parser("tune", **_about(tune))
    options.add_argument(
        "--device",
        help="an engine that info lists, such as jit; by default the CPU's fastest, and a GPU",
    )
    options.add_argument(
        "--kind", action="append",
        help='a kind of layer, such as "tanh float32", more than once for several (all)',
    )  # fmt: skip
    options.add_argument(
        "--features", type=int, nargs="+", default=[128, 784],
        help="numbers of features to be fast for (128 784)",
    )  # fmt: skip
    options.add_argument(
        "--repeats", type=int, default=5, help="measurements of each setting (%(default)s)"
    )


def _add_export(commands):
    options = commands.add_parser("export", **_about(export))
    options.add_argument("model", help="a model that skops has saved, such as digits.skops")
    options.add_argument("--c", required=True, metavar="FILE", help="the C header to write")
    options.add_argument("--name", help="what names in C begin with (the name of the file)")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m sklearn_fsvc", description=__doc__)
    parser.add_argument("--version", action="version", version=f"sklearn_fsvc {__version__}")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", **_about(info))
    _add_demo(commands)
    _add_tune(commands)
    _add_export(commands)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return
    commands = {"info": info, "demo": demo, "tune": tune, "export": export}
    try:
        commands[args.command](args)
    except (RuntimeError, ValueError, OSError) as error:  # what these raise is for the user
        raise SystemExit(f"{args.command}: {error}") from error


if __name__ == "__main__":
    main()
