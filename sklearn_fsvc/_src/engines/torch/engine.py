"""Any device of PyTorch: GPUs of AMD (ROCm), Apple and Intel, those of NVIDIA, and the host.

PyTorch is imported by the first call of `TorchEngine.why_unavailable`.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ...utils.availability import install_command
from ...version import __version__
from ..base import MAX_AUTOMATIC_UNITS_OF_GPU, BufferSink, Engine, Sink
from ..host import DirectSink, HostStopwatch, processor_name, select_in_order
from ..host_memory import host_memory
from ..threads import n_workers, worker_index

# Kinds of devices, as PyTorch names them, and what they are.
DEVICE_TYPES = {
    "cpu": "host", "cuda": "NVIDIA or AMD GPU", "mps": "Apple GPU", "xpu": "Intel GPU",
}  # fmt: skip
# Compute capabilities of NVIDIA GPUs that multiply float64 at half the rate of float32 or more.
_FAST_FLOAT64 = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
# Kinds for which there is Triton.
_TRITON = ("cuda", "xpu")
# (process, device) on which a product was right.
_working: set[tuple[int, str]] = set()


class TorchEngine(Engine):
    """A device of PyTorch.

    Parameters
    ----------
    device_name : str or None
        "cpu", "cuda", "cuda:1", "mps", "xpu" and so on. None is the accelerator that PyTorch has,
        else the host; in the workers of joblib, GPUs are distributed round-robin.
    """

    name = "torch"
    device_types = tuple(DEVICE_TYPES)
    packages = ("torch",)
    block_rows, round_rows, chunk_units = 65_536, 1024, 1024
    # DLPack's numbers of the GPUs of CUDA, Metal, ROCm and oneAPI.
    dlpack_types = (2, 8, 10, 14)

    def __init__(self, device_name: str | None = None) -> None:
        self._device_name = device_name

    # The device.

    @classmethod
    def is_installed(cls) -> bool:
        return find_spec("torch") is not None

    @cached_property
    def torch_device(self) -> Any:
        """PyTorch's device."""
        import torch

        kind, colon, number = (self._device_name or _accelerator()).partition(":")
        if kind == "cpu":
            return torch.device(kind)
        if colon:
            return torch.device(kind, int(number))
        worker = worker_index()
        return torch.device(kind, 0 if worker is None else worker % _count(kind))

    @property
    def index(self) -> int:
        """Number of the device."""
        return self.torch_device.index or 0

    @cached_property
    def xp(self) -> Any:
        from .namespace import Namespace

        return Namespace(str(self.torch_device), self._has_float64())

    @cached_property
    def algebra(self) -> Any:
        from .algebra import TorchAlgebra

        return TorchAlgebra(self.xp)

    def _has_float64(self) -> bool:
        import torch

        if self.torch_device.type == "xpu":
            return bool(torch.xpu.get_device_properties(self.index).has_fp64)
        return self.torch_device.type != "mps"

    def __enter__(self) -> Self:
        self.name = f"torch:{self.torch_device}"
        if self.torch_device.type != "cpu":
            self.max_automatic_units = MAX_AUTOMATIC_UNITS_OF_GPU
        super().__enter__()
        _full_precision.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        _full_precision.exit()

    def why_unavailable(self) -> str | None:
        remedy = install_command("torch")
        try:
            import torch  # noqa: F401

            from . import namespace  # noqa: F401
        except ImportError as error:
            return f"PyTorch cannot be imported ({error}); {remedy}"
        except Exception as error:  # a broken library may raise anything
            return f"PyTorch cannot be imported ({type(error).__name__}: {error}); {remedy}"
        key = os.getpid(), self._device_name or ""
        if key not in _working:
            reason = self._check()
            if reason is not None:
                return reason
            _working.add(key)
        return None

    def _check(self):
        """Return None if a product on the device is right, else the reason and the remedy."""
        import torch

        kind, _, number = (self._device_name or _accelerator()).partition(":")
        what = f"PyTorch {torch.__version__}"
        try:
            n_devices = _count(kind)
            if not n_devices:
                return (
                    f"{what} reaches no {DEVICE_TYPES[kind]}. Install its driver, and the build of "
                    "PyTorch for it, by the command that pytorch.org shows; or use "
                    'device="torch", which takes what PyTorch has'
                )
            if int(number or 0) >= n_devices:
                return f"{what} has {n_devices} of {kind}, numbered from 0"
            one = torch.ones((2, 3), device=self.torch_device)
            is_right = (one @ one.T).cpu().eq(3).all()
        except Exception as error:  # drivers raise many types
            if "out of memory" in str(error):
                return f"too little memory is free ({error}); end other processes that use it"
            return f"{what} does not compute on {kind} ({type(error).__name__}: {error})"
        return None if is_right else f"{what} gives wrong results on {self.torch_device}"

    def memory(self) -> tuple[int, int]:
        import torch

        kind = self.torch_device.type
        if kind == "cpu":
            return host_memory()
        if kind == "mps":  # shared with the host, of which a process may have this part
            total = torch.mps.recommended_max_memory()
            return max(0, total - torch.mps.current_allocated_memory()), total
        module = getattr(torch, kind)
        if hasattr(module, "mem_get_info"):
            free, total = module.mem_get_info(self.index)
        else:  # for Intel's GPUs, PyTorch 2.6 reports the allocations of this process only
            total = module.get_device_properties(self.index).total_memory
            free = total - module.memory_reserved(self.index)
        free += module.memory_reserved(self.index) - module.memory_allocated(self.index)
        return free // n_workers(), total

    def describe(self) -> str:
        """Return a line for the device that it selects, and for each other one."""
        import torch

        free, total = (f"{n / 2**30:.1f} GiB" for n in self.memory())
        others = [
            f"torch:{kind}:{i}"
            for kind in DEVICE_TYPES
            for i in range(_count(kind))
            if kind != "cpu"
        ]
        lines = [f"PyTorch {torch.__version__} on {self.torch_device}, {free} free of {total}"]
        if self.torch_device.type != "cpu" and (reason := _why_no_triton(self.torch_device)):
            lines.append(f"Manhattan distances without a kernel of Triton, hence slow: {reason}")
        return "\n".join([*lines, *(f"also {other}" for other in others[1:])])

    def identity(self) -> dict[str, str]:
        import torch

        kind = self.torch_device.type
        is_in_processor = kind in ("cpu", "mps")
        return {
            "engine": f"{TorchEngine.name} {kind}",
            "device": processor_name()
            if is_in_processor
            else getattr(torch, kind).get_device_name(self.index),
            "compiler": f"PyTorch {torch.__version__}",
            "package": __version__,
        }

    def synchronize(self) -> None:
        self.algebra.synchronize()

    # Settings.

    def tunables(self, layer: Any) -> dict[str, tuple[Any, ...]]:
        is_host = self.torch_device.type == "cpu"
        tunables: dict[str, tuple[Any, ...]] = {
            "M": (2048, 4096, 8192) if is_host else (8192, 4096, 2048), "asymmetry": (1, 2, 4),
        }  # fmt: skip
        if layer.reduction == "manhattan":
            has_triton = _why_no_triton(self.torch_device) is None
            tunables["manhattan"] = (*("triton",)[:has_triton], "differences", "cdist")
        if layer.hidden_dtype == np.float32 and self.xp.has_float64:
            precisions = "float64", "float32"
            tunables["statistics"] = precisions if self._is_float64_fast() else precisions[::-1]
        return tunables

    def statistics_dtype(self, layer: Any) -> np.dtype:
        return np.dtype(self.settings(layer).get("statistics", layer.hidden_dtype))

    def is_tile_invariant(self, layer: Any) -> bool:
        # Elementwise, in the order of the features; products depend on the shape. On an H100, tests
        # of the bits with weighted features failed, for a reason that is not found yet.
        is_elementwise = layer.reduction == "manhattan" and self.torch_device.type == "cpu"
        return is_elementwise and self.settings(layer)["manhattan"] != "cdist"

    def _is_float64_fast(self) -> bool:
        import torch

        if self.torch_device.type != "cuda":
            return False
        if torch.version.hip is not None:  # of AMD, the Instinct series
            name = torch.cuda.get_device_properties(self.index).gcnArchName
            return name.startswith("gfx9")
        return torch.cuda.get_device_capability(self.index) in _FAST_FLOAT64

    # Evaluation.

    def prepare(self, layer: Any) -> Any:
        from . import layers

        method = self.settings(layer).get("manhattan", "")
        return layers.prepare(layer, self.xp, method)

    def prepared_bytes(self, layer: Any) -> int:
        from . import layers

        return layers.prepared_bytes(layer, self.torch_device)

    def row_bytes(self, layer: Any) -> int:
        from . import layers

        settings = self.settings(layer)
        n_units = min(layer.n_units, settings["M"] // settings["asymmetry"])
        return layers.row_bytes(layer, n_units, settings.get("manhattan", ""))

    def hidden(self, prepared: Any, X: Any, out: Any = None, units: slice | None = None) -> Any:
        from . import layers

        layer = prepared.layer
        if out is None:
            out = self.xp.empty((len(X), layer.n_units), layer.hidden_dtype)
        layers.hidden(prepared, X, out, units or slice(0, layer.n_units))
        return out

    def select_novel(
        self, layer: Any, X: Any, activity: Any, threshold: float
    ) -> npt.NDArray[np.intp]:
        # One candidate after the other: the host needs microseconds for each, a GPU a launch.
        H = self.to_host(self.hidden_transposed(layer, X))
        return select_in_order(H, self.to_host(activity).copy(), threshold)

    # Transfers.

    def to_device(self, array: Any) -> Any:
        return self.xp.asarray(array)

    def to_host(self, array: Any) -> npt.NDArray[Any]:
        return self.algebra.to_host(array)

    def to_user(self, array: Any) -> Any:
        return array.tensor if isinstance(array, self.xp.ndarray) else array

    def upload_if_fits(self, X: Any, limit: int) -> Any:
        if not isinstance(X, np.ndarray) or self.torch_device.type == "cpu" or X.nbytes > limit:
            return X
        return self.xp.asarray(X)

    def iter_uploads(self, blocks: Iterable[npt.NDArray[Any]]) -> Iterator[Any]:
        return map(self.xp.asarray, blocks)

    def sink(self, out: Any) -> Sink:
        if isinstance(out, np.ndarray) and self.torch_device.type == "cpu":
            return DirectSink(self.xp.asarray(out))
        return _HostSink(self.xp, out) if isinstance(out, np.ndarray) else DirectSink(out)

    def stopwatch(self) -> "_Stopwatch":
        return _Stopwatch(self.synchronize)


class _HostSink(BufferSink):
    """Copies tiles of H to an array of the host."""

    def __init__(self, xp: Any, out: npt.NDArray[Any]) -> None:
        super().__init__(xp, out.shape[1], out.dtype)
        self._out = out

    def put(self, part: slice) -> None:
        self._out[part] = self.buffer(part).tensor.cpu().numpy()


class _Stopwatch(HostStopwatch):
    """Wall-clock times of what a device has done."""

    def __init__(self, synchronize: Any) -> None:
        synchronize()
        super().__init__()
        self._synchronize = synchronize

    def time_stage(self, stage: str) -> None:
        self._synchronize()
        super().time_stage(stage)


class _FullPrecision:
    """While an engine is entered, PyTorch multiplies float32 in float32, not in TF32 or bfloat16.

    That is PyTorch's default, and a setting of the whole process.
    """

    def __init__(self) -> None:
        self._lock, self._n_entered, self._before = threading.Lock(), 0, ""

    def enter(self) -> None:
        import torch

        with self._lock:
            if self._n_entered == 0:
                self._before = torch.get_float32_matmul_precision()
                torch.set_float32_matmul_precision("highest")
            self._n_entered += 1

    def exit(self) -> None:
        import torch

        with self._lock:
            self._n_entered -= 1
            if self._n_entered == 0:
                torch.set_float32_matmul_precision(self._before)


_full_precision = _FullPrecision()


@cache
def _why_no_triton(device: Any) -> str | None:
    """Return None if Triton's kernel runs on a device, else the reason."""
    if device.type not in _TRITON:
        return f"it has none for {device.type}"
    try:
        from . import manhattan

        return manhattan.check(device)
    except Exception as error:  # no Triton, no C compiler, or an unsupported device
        return f"{type(error).__name__}: {error}"


def _accelerator() -> str:
    """Return the kind of accelerator that PyTorch has, "cpu" for none."""
    return next(kind for kind in ("cuda", "mps", "xpu", "cpu") if _count(kind))


def _count(kind: str) -> int:
    """Return the number of devices of a kind."""
    import torch

    if kind == "cpu":
        return 1
    if kind == "mps":
        return int(torch.backends.mps.is_available())
    module = getattr(torch, kind)
    return module.device_count() if module.is_available() else 0
