"""Commands: inspect the installation, run a demo, tune engine settings, export models."""

import argparse
import platform
import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from .data.memory_plan import format_bytes
from .engines import CPU, accelerator, get_engine, known_engines, profiles
from .engines.host_memory import host_memory
from .engines.threads import n_threads
from .utils.availability import install_command
from .version import __version__

_DEVICE = "where layers are computed: auto, cpu, cuda or an engine that info lists (%(default)s)"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command of `argv`, by default that of the command line."""
    parser = argparse.ArgumentParser(prog="python -m sklearn_fsvc", description=__doc__)
    parser.add_argument("--version", action="version", version=f"sklearn_fsvc {__version__}")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("info", **_describe(info))
    _add_demo(commands)
    _add_tune(commands)
    _add_export(commands)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return
    functions: dict[str, Callable[[argparse.Namespace], None]] = {
        "info": info, "demo": demo, "tune": tune, "export": export,
    }  # fmt: skip
    try:
        functions[args.command](args)
    except (RuntimeError, ValueError, OSError) as error:
        # These are written for users: print one line instead of a traceback.
        raise SystemExit(f"{args.command}: {error}") from error


def info(args: argparse.Namespace | None = None) -> None:
    """Print versions, the machine, and for each engine whether it works, or why not."""
    print(f"sklearn_fsvc {__version__}, Python {platform.python_version()}, {platform.machine()}")
    engines = known_engines()
    needed = (package for engine in engines.values() for package in engine.packages)
    for package in dict.fromkeys(["scikit-learn", "numpy", "scipy", "joblib", *needed]):
        print(f"  {package:17}{_package_version(package)}")
    free, total = host_memory()
    print(f"threads {n_threads()}, memory {format_bytes(free)} free of {format_bytes(total)}")
    print("engines")
    for name, engine in engines.items():
        reason = engine().why_unavailable()
        if reason is None:
            details = f"works: {engine().describe()}\n{_describe_profile(name)}"
            print(f"  {name:8}" + details.replace("\n", "\n" + " " * 10))
        else:
            print(f"  {name:8}no: {reason}")
    print(f"  cpu     is {CPU}")
    gpu = accelerator()
    if gpu is None:
        print(f"  auto    is {CPU}")
    else:
        size = f"{gpu.auto_work:.0e} samples x units x features"
        print(f"  auto    is {CPU}, and {gpu.name} from {size} on")


def demo(args: argparse.Namespace) -> None:
    """Fit an RBF and a tanh network to handwritten digits, and plot the misclassified ones."""
    from .demo import run  # imports the estimators

    run(args.data, args.output, args.n_hidden, args.device, args.verbose)


def tune(args: argparse.Namespace) -> None:
    """Measure which engine settings are fastest on this machine, and store them."""
    from .tuning import KINDS, is_reliable
    from .tuning import tune as measure

    devices = [args.device] if args.device else ["cpu"]
    if not args.device and (gpu := accelerator()) is not None:
        devices.append(gpu.name)
    kinds = args.kind or KINDS
    seconds = args.max_seconds / len(devices)
    for device in devices:
        print(_describe_tuning(len(kinds), seconds), flush=True)
        try:
            found = measure(
                device, kinds, n_features=args.features, repeats=args.repeats,
                max_seconds=seconds, verbose=1,
            )  # fmt: skip
        except KeyboardInterrupt:
            raise SystemExit(
                f"stopped; the settings above are stored in {_profile_path(device)}"
            ) from None
        if any(map(is_reliable, found.values())):
            print(f"stored in {_profile_path(device)}")


def export(args: argparse.Namespace) -> None:
    """Write a saved model as a C header, for programs without Python."""
    export_header(args.model, args.c, args.name)


def export_header(model: str | Path, header: str | Path, name: str | None = None) -> None:
    """Write the model of a skops file as a C header, and print how large its constants are.

    Parameters
    ----------
    model : str or Path
        A file that `skops.io.dump` has written.
    header : str or Path
        The file to write.
    name : str, optional
        Prefix of the names in the header, by default the name of its file.

    Raises
    ------
    RuntimeError
        Where skops is not installed.
    ValueError
        Where the model cannot be read or exported, or the header cannot be written.
    """
    from .export.c import header_of

    header = Path(header)
    name = name or re.sub(r"\W", "_", header.stem, flags=re.ASCII)
    try:
        written = header_of(_load_skops(model), name)
        header.write_text(written.text)
    except (TypeError, OSError) as error:
        raise ValueError(error) from error
    print(f"{header}: {written.n_bytes:,} bytes of constants; call {name}_predict")


def _load_skops(path):
    """Return the model of a skops file; build no type that is not in `TRUSTED`."""
    from .export.skops import TRUSTED

    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}.")
    if find_spec("skops") is None:
        raise RuntimeError(f"reading the model needs skops; {install_command('skops')}")
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.load(path, trusted=TRUSTED)
    except UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} contains types from outside this package: {error} Load it in Python with the "
            "types that you trust, and call sklearn_fsvc.export.c.to_c."
        ) from error
    except Exception as error:  # skops reads a ZIP archive of JSON, and any of that may fail
        raise ValueError(
            f"{path} is not a skops file ({error}); save the model with skops.io.dump(model, path)."
        ) from error


def _package_version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _describe_profile(name):
    """Return which settings an engine uses on this machine: the defaults, or measured ones."""
    with get_engine(name) as engine:
        path, n_kinds = profiles.path_of(engine.identity()), len(engine.tuned)
    if not n_kinds:
        return "default settings; python -m sklearn_fsvc tune measures this machine"
    return f"settings measured here for {_kinds(n_kinds)} of layers, {path}"


def _describe_tuning(n_kinds, seconds):
    """Return how long tuning takes; it can be stopped without losing what is measured."""
    return (
        f"{_kinds(n_kinds)} of layers, at most {seconds:.0f} seconds. Settings are stored as soon "
        "as their line is printed; Ctrl-C skips the remaining kinds."
    )


def _kinds(n):
    return f"{n} kind" if n == 1 else f"{n} kinds"


def _profile_path(device):
    with get_engine(device) as engine:
        return profiles.path_of(engine.identity())


def _describe(command):
    """Return the help of a command, from its docstring."""
    return {"help": command.__doc__, "description": command.__doc__}


def _add_demo(commands):
    options = commands.add_parser("demo", **_describe(demo))
    options.add_argument(
        "--data", metavar="FOLDER",
        help="folder with the four IDX files of MNIST (default: the 8 x 8 digits of scikit-learn)",
    )  # fmt: skip
    options.add_argument(
        "--output", metavar="FILE",
        help="file of the figure (default: digits.png, if matplotlib is installed)",
    )  # fmt: skip
    options.add_argument(
        "--n-hidden", type=int, help="hidden units of each network (600; 4096 with --data)"
    )
    options.add_argument("--device", default="auto", help=_DEVICE)
    options.add_argument(
        "--verbose", type=int, default=0, metavar="LEVEL",
        help="1 prints a line a second during long operations, 2 every pass over the data "
        "(%(default)s)",
    )  # fmt: skip


def _add_tune(commands):
    options = commands.add_parser("tune", **_describe(tune))
    options.add_argument(
        "--device",
        help="an engine that info lists, such as jit (default: the CPU's fastest, and a GPU)",
    )
    options.add_argument(
        "--kind", action="append",
        help='a kind of layer, such as "tanh float32"; may be repeated (default: all)',
    )  # fmt: skip
    options.add_argument(
        "--features", type=int, nargs="+", default=[128, 784],
        help="numbers of features to tune for (128 784)",
    )  # fmt: skip
    options.add_argument(
        "--repeats", type=int, default=5, help="measurements of each setting (%(default)s)"
    )
    options.add_argument(
        "--max-seconds", type=float, default=180, help="time for all kinds together (%(default)s)"
    )


def _add_export(commands):
    options = commands.add_parser("export", **_describe(export))
    options.add_argument("model", help="a model saved with skops, such as digits.skops")
    options.add_argument("--c", required=True, metavar="FILE", help="the C header to write")
    options.add_argument("--name", help="prefix of all C names (default: the name of the file)")
