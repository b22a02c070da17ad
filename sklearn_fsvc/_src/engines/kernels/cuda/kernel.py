"""The handle of a CUDA kernel, which exists before the kernel is compiled.

A kernel is specialised for dtypes, tile sizes and so on: a factory defines it inside a function,
where these are constants. The factory imports the compiler, which is large and usually not
installed. So the engine launches a `CudaKernel`, which only names the factory and its arguments;
the factory runs if the kernel has to be compiled.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from typing import Any, NamedTuple


class BlockSizes(NamedTuple):
    """Sizes of blocks of threads. Smaller ones suit the simulator, where a thread is slow."""

    threads: int = 256  # of kernels that process elements independently
    square: int = 32  # side of the squares that are transposed
    lines: int = 8  # of a square that are copied at a time
    select_threads: int = 1024  # of novelty selection


@dataclass(frozen=True)
class CudaKernel:
    """A kernel, identified by its factory and the arguments of the factory."""

    factory: Callable[..., Any]
    arguments: tuple[Hashable, ...]

    @property
    def module(self) -> str:
        """Name of the module that defines the factory."""
        return self.factory.__module__

    @property
    def name(self) -> str:
        """Name of the factory and its arguments, the same in every process."""
        return " ".join([self.factory.__name__, *map(_text, self.arguments)])

    @cached_property
    def definition(self) -> Any:
        """The decorated Python function: imports the compiler, or the simulator."""
        return self.factory(*self.arguments)


def _text(argument: Hashable) -> str:
    return "x".join(map(str, argument)) if isinstance(argument, tuple) else str(argument)


def cuda_kernel(factory: Callable[..., Any]) -> Callable[..., CudaKernel]:
    """Decorate the factory of a kernel: calling it returns a `CudaKernel` and runs nothing."""

    @wraps(factory)
    @cache
    def handle(*arguments: Hashable) -> CudaKernel:
        return CudaKernel(factory, arguments)

    return handle
