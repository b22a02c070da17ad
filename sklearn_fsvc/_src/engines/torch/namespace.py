"""NumPy's functions for arrays on a device of PyTorch: as many as the readouts and layers use."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from .arrays import (
    WIDER,
    Array,
    allocating,
    in_order,
    moved,
    on_device_of,
    reverse_axes,
    same_device,
    torch_dtype,
)


class Namespace:
    """Functions of NumPy for arrays on a device.

    Parameters
    ----------
    device : str
        PyTorch's name of it.
    has_float64 : bool
        Whether it computes in float64.
    """

    ndarray, inf = Array, np.inf

    def __init__(self, device: str, has_float64: bool = True) -> None:
        self.device, self.has_float64 = torch.device(device), has_float64
        window = SimpleNamespace(sliding_window_view=self._sliding_window_view)
        self.lib, self.linalg = SimpleNamespace(stride_tricks=window), SimpleNamespace(norm=_norm)

    def __reduce__(self) -> tuple[Any, ...]:
        return Namespace, (str(self.device), self.has_float64)

    def place(self, dtype: torch.dtype) -> torch.device:
        """Return the device of arrays of a dtype."""
        is_here = self.has_float64 or dtype != torch.float64
        return self.device if is_here else torch.device("cpu")

    def operand(self, value: Any) -> Any:
        """Return a tensor or a number for an operand of a function or an operator."""
        if isinstance(value, Array):
            return value.tensor
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            return self.asarray(value).tensor
        return value if isinstance(value, (int, float)) else NotImplemented

    # New arrays.

    def empty(self, shape: Any, dtype: Any = float, order: str = "C") -> Array:
        return self._new(torch.empty, shape, dtype, order)

    def zeros(self, shape: Any, dtype: Any = float, order: str = "C") -> Array:
        return self._new(torch.zeros, shape, dtype, order)

    def ones(self, shape: Any, dtype: Any = float) -> Array:
        return self._new(torch.ones, shape, dtype)

    def full(self, shape: Any, value: Any, dtype: Any = float) -> Array:
        return self._new(torch.full, shape, dtype, "C", float(value))

    def eye(self, n: int, dtype: Any = np.float64, order: str = "C") -> Array:
        result = self.zeros((n, n), dtype, order)
        result.tensor.diagonal().fill_(1)
        return result

    def empty_like(self, A: Array) -> Array:
        return self.empty(A.shape, A.dtype)

    def zeros_like(self, A: Array) -> Array:
        return self.zeros(A.shape, A.dtype)

    def ones_like(self, A: Array) -> Array:
        return self.ones(A.shape, A.dtype)

    def _new(self, function, shape, dtype, order="C", *args):
        shape, to = (shape,) if isinstance(shape, (int, np.integer)) else shape, torch_dtype(dtype)
        shape = tuple(map(int, shape if order == "C" else reversed(shape)))
        tensor = allocating(function, shape, *args, dtype=to, device=self.place(to))
        return Array(tensor if order == "C" else reverse_axes(tensor), self)

    def asarray(self, values: Any, dtype: Any = None, order: str | None = None) -> Array:
        """Return values as an array, without a copy where that is possible."""
        tensor = values.tensor if isinstance(values, Array) else _from_host(np.asarray(values))
        to = tensor.dtype if dtype is None else torch_dtype(dtype)
        tensor = moved(tensor, self.place(to), to)
        return Array(tensor if order is None else in_order(tensor, order), self)

    def array(self, values: Any, dtype: Any = None, order: str = "C") -> Array:
        return self.asarray(values, dtype).copy(order)

    def ascontiguousarray(self, values: Any, dtype: Any = None) -> Array:
        return self.asarray(values, dtype, order="C")

    def from_dlpack(self, values: Any) -> Array:
        """Return a tensor, or an array of another library on the same device, as an array."""
        tensor = values if isinstance(values, torch.Tensor) else torch.from_dlpack(values)
        if tensor.device.type != self.device.type:
            raise ValueError(
                f'X is on {tensor.device}, not on {self.device}. Use device="torch:{tensor.device}"'
                ", or copy X."
            )
        return Array(tensor.detach(), self)

    # Arrays of several.

    def concatenate(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        return self._join(torch.cat, arrays, dim=axis)

    def stack(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        return self._join(torch.stack, arrays, dim=axis)

    def column_stack(self, arrays: Sequence[Array]) -> Array:
        return self._join(torch.column_stack, arrays)

    def _join(self, function, arrays, **kwargs):
        tensors = same_device(*(self.operand(array) for array in arrays))
        return Array(allocating(function, tensors, **kwargs), self)

    @staticmethod
    def split(A: Array, n: int, axis: int = 0) -> list[Array]:
        return [Array(tensor, A.xp) for tensor in torch.tensor_split(A.tensor, n, dim=axis)]

    # Elements.

    def where(self, condition: Array, A: Any, B: Any) -> Array:
        A, B = self.operand(A), self.operand(B)
        if not any(isinstance(operand, torch.Tensor) for operand in (A, B)):
            A = self.full((), A).tensor
        return Array(allocating(torch.where, *same_device(condition.tensor, A, B)), self)

    @staticmethod
    def flatnonzero(A: Array) -> Array:
        return A._like(A.tensor.reshape(-1).nonzero()[:, 0])

    @staticmethod
    def take_along_axis(A: Array, indices: Array, axis: int) -> Array:
        return A._like(torch.take_along_dim(*same_device(A.tensor, indices.tensor), dim=axis))

    @staticmethod
    def searchsorted(A: Array, values: Array, side: str = "left") -> Array:
        return A._like(torch.searchsorted(*same_device(A.tensor, values.tensor), side=side))

    @staticmethod
    def argsort(A: Array, axis: int = -1) -> Array:
        return A._like(allocating(torch.argsort, A.tensor, dim=axis, stable=True))

    @staticmethod
    def argpartition(A: Array, kth: int, axis: int = -1) -> Array:
        """Return the indices that sort A, which is one of the partitions."""
        return Namespace.argsort(A, axis)

    @staticmethod
    def unpackbits(A: Array, bitorder: str) -> Array:
        shifts = torch.arange(8, dtype=torch.uint8, device=A.tensor.device)
        shifts = shifts if bitorder == "little" else shifts.flip(0)
        return A._like(((A.tensor.reshape(-1, 1) >> shifts) & 1).reshape(-1))

    @staticmethod
    def _sliding_window_view(A: Array, shape: Sequence[int], axis: Sequence[int]) -> Array:
        tensor = A.tensor
        for size, dim in zip(shape, axis, strict=True):
            tensor = tensor.unfold(dim, size, 1)
        return A._like(tensor)

    # Products.

    def einsum(self, subscripts: str, *arrays: Array) -> Array:
        return self._product(torch.einsum, arrays, subscripts)

    def vdot(self, A: Array, B: Array) -> Array:
        return self._product(torch.dot, (A.ravel(), B.ravel()))

    def outer(self, A: Array, B: Array) -> Array:
        return self._product(torch.outer, (A, B))

    def tensordot(self, A: Array, B: Array, axes: int) -> Array:
        return self._product(torch.tensordot, (A, B), dims=axes)

    def _product(self, function, arrays, *args, **kwargs):
        tensors = same_device(*(array.tensor for array in arrays))
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = torch.promote_types(dtype, tensor.dtype)
        same = (tensor.to(dtype) for tensor in tensors)
        return Array(allocating(function, *args, *same, **kwargs), self)

    def tril(self, A: Array, k: int = 0) -> Array:
        return A._like(allocating(torch.tril, A.tensor, k))

    # Elementwise functions.

    def add(self, A: Any, B: Any, out: Any = None, dtype: Any = None) -> Array:
        if dtype is not None:
            A = A.astype(dtype, copy=False)
        return self._elementwise(torch.add, (A, B), out)

    def subtract(self, A: Any, B: Any, out: Any = None) -> Array:
        return self._elementwise(torch.subtract, (A, B), out)

    def multiply(self, A: Any, B: Any, out: Any = None) -> Array:
        return self._elementwise(torch.multiply, (A, B), out)

    def divide(self, A: Any, B: Any, out: Any = None) -> Array:
        return self._elementwise(torch.divide, (A, B), out)

    def power(self, A: Any, B: Any, out: Any = None) -> Array:
        return self._elementwise(torch.pow, (A, B), out)

    def maximum(self, A: Array, B: Any, out: Any = None) -> Array:
        is_number = not isinstance(B, Array)
        return self._elementwise(torch.clamp_min if is_number else torch.maximum, (A, B), out)

    def minimum(self, A: Array, B: Any, out: Any = None) -> Array:
        is_number = not isinstance(B, Array)
        return self._elementwise(torch.clamp_max if is_number else torch.minimum, (A, B), out)

    def _elementwise(self, function, operands, out=None):
        operands = [self.operand(operand) for operand in operands]
        if not isinstance(operands[0], torch.Tensor):  # which some functions need
            operands[0] = torch.full_like(operands[1], operands[0])
        if out is None:
            return Array(allocating(function, *same_device(*operands)), self)
        allocating(function, *(on_device_of(o, out.tensor) for o in operands), out=out.tensor)
        return out

    def __getattr__(self, name: str) -> Callable[..., Array]:
        """Return a function of one array: `_UNARY` names them."""
        if name not in _UNARY:
            raise AttributeError(f"arrays of PyTorch have no function {name!r} here")
        function = getattr(torch, _UNARY[name])
        return lambda A, out=None: self._elementwise(function, (A,), out)


# Functions of one array: NumPy's name, PyTorch's name.
_UNARY = {
    "abs": "abs", "exp": "exp", "isfinite": "isfinite", "isnan": "isnan", "log": "log",
    "log1p": "log1p", "negative": "negative", "rint": "round", "sign": "sign", "sqrt": "sqrt",
    "square": "square", "tanh": "tanh",
}  # fmt: skip


def _norm(A: Array, axis: int | None = None) -> Array:
    return A._like(torch.linalg.vector_norm(A.tensor, dim=axis))


def _from_host(array):
    """Return a tensor with the memory of an array of the host, where PyTorch has its dtype."""
    if array.dtype.name in WIDER:
        array = array.astype(WIDER[array.dtype.name])
    if any(step < 0 for step in array.strides) or not array.dtype.isnative:
        array = np.array(array, array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else _as_writeable(array))


def _as_writeable(array):
    """Return a view of a read-only array marked as writeable, to avoid PyTorch's warning."""
    data = array.__array_interface__ | {"data": (array.ctypes.data, False)}
    view = np.asarray(SimpleNamespace(__array_interface__=data, base=array))
    return view.view(array.dtype)
