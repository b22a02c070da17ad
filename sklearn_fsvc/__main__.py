"""python -m sklearn_fsvc {info, demo}"""

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from . import __version__
from .engines import AUTO_WORK, CPU, ENGINES, gpu_works
from .engines.blas import blas_name
from .engines.host import n_threads
from .tiling import format_bytes

# What the GPU needs, under the names that its wheels have.
_GPU = ("numba-cuda-mlir", "cupy-cuda13x", "cupy-cuda12x")


def info():
    """Versions, the machine, and each engine: whether it works, how, and if not, why."""
    print(f"sklearn_fsvc {__version__}, Python {platform.python_version()}, {platform.machine()}")
    for package in ("scikit-learn", "numpy", "scipy", "numba", "joblib", "mkl", *_GPU):
        print(f"  {package:17}{_version(package)}")
    free, total = ENGINES["jit"]().memory()
    print(f"threads {n_threads()}, memory {format_bytes(free)} free of {format_bytes(total)}")
    print("engines")
    for name, engine in ENGINES.items():
        reason = engine().why_unavailable()
        print(f"  {name:8}{'works: ' + _details(name) if reason is None else 'no: ' + reason}")
    print(f"  cpu     is {CPU}")
    large = "cuda" if gpu_works() else CPU
    print(f"  auto    is {CPU}, and {large} from {AUTO_WORK:.0e} rows x units x features on")


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _details(name):
    if name != "jit":
        return {"blas": blas_name, "mkl": lambda: "Intel MKL", "cuda": _gpus}[name]()
    from .engines.kernels.simd import TARGET

    how = {
        "vnni": "minima of 4 bytes a lane, VNNI",
        "sad": "absolute differences of 8 bytes a lane, psadbw",
        "portable": "a portable loop",
    }[TARGET.uint8]
    return f"vectors of {TARGET.width} bytes{', FMA' if TARGET.fma else ''}; uint8 by {how}"


def _gpus():
    """A line for each GPU."""
    import cupy

    runtime = cupy.cuda.runtime
    driver = runtime.driverGetVersion()
    lines = [f"CUDA {driver // 1000}.{driver % 1000 // 10} by the driver"]
    for index in range(runtime.getDeviceCount()):
        with ENGINES["cuda"](index) as engine:
            free, total = engine.memory()
            name = runtime.getDeviceProperties(index)["name"].decode()
        lines.append(f"{engine.name} {name}, {format_bytes(free)} free of {format_bytes(total)}")
    return "\n          ".join(lines)


def demo(args):
    """Both networks on handwritten digits."""
    if find_spec("matplotlib") is None:
        raise SystemExit("demo saves a picture; pip install 'sklearn-fsvc[examples]'")
    from .demo import run

    run(args.data, args.output, args.n_hidden, args.device, args.verbose)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m sklearn_fsvc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help=info.__doc__)
    options = commands.add_parser("demo", help=demo.__doc__)
    options.add_argument("--data", help="folder with the IDX files of MNIST")
    options.add_argument("--output", default="digits.png", help="the picture (%(default)s)")
    options.add_argument("--n-hidden", type=int, help="hidden units of each network")
    options.add_argument("--device", default="auto")
    options.add_argument("--verbose", type=int, default=0)
    args = parser.parse_args(argv)
    info() if args.command == "info" else demo(args)


if __name__ == "__main__":
    main()
