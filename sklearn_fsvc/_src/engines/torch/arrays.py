"""NumPy's interface over PyTorch's tensors: as much of it as the readouts and layers use.

The readouts are written for NumPy and for libraries with the same interface. Those of the array API
standard, such as `array_api_compat.torch`, have no ``out=``, no methods and no memory order, which
the readouts need for work in place; and PyTorch's own interface of this kind, ``torch._numpy``, is
private, and its dtypes are not NumPy's. So an `Array` holds a tensor, and a `Namespace` the
functions.

Where a device has no float64, arrays of float64 are tensors of the host. An operation on arrays of
both computes on the host, or where it writes to.
"""

import operator
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

# Unsigned integers with which PyTorch does not compute, by those that have room for them.
_WIDER = {"uint16": "int32", "uint32": "int64"}


@cache
def torch_dtype(dtype: npt.DTypeLike) -> torch.dtype:
    """Return PyTorch's dtype for one of NumPy's, a wider one for unsigned integers."""
    name = np.dtype(dtype).name
    return getattr(torch, _WIDER.get(name, name))


@cache
def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """Return NumPy's dtype for one of PyTorch's."""
    return np.dtype(str(dtype).removeprefix("torch."))


def allocating(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Return ``function(*args, **kwargs)``; raise MemoryError if the device has no memory for it.

    PyTorch raises a RuntimeError, for which some devices have a class of their own.
    """
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        message = str(error)
        if "out of memory" in message or "allocate memory" in message:
            raise MemoryError(message) from error
        raise


class Array:
    """A tensor with the attributes and methods of a NumPy array.

    Parameters
    ----------
    tensor : torch.Tensor
    xp : Namespace
    """

    __slots__ = ("tensor", "xp")
    __array_ufunc__ = None  # NumPy's scalars and arrays leave operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tensor: torch.Tensor, xp: "Namespace") -> None:
        self.tensor, self.xp = tensor, xp

    # Attributes.

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> np.dtype:
        return numpy_dtype(self.tensor.dtype)

    @property
    def ndim(self) -> int:
        return self.tensor.ndim

    @property
    def size(self) -> int:
        return self.tensor.numel()

    @property
    def itemsize(self) -> int:
        return self.tensor.element_size()

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(step * self.itemsize for step in self.tensor.stride())

    @property
    def flags(self) -> SimpleNamespace:
        is_contiguous = [t.is_contiguous() for t in (self.tensor, _reversed(self.tensor))]
        return SimpleNamespace(c_contiguous=is_contiguous[0], f_contiguous=is_contiguous[1])

    @property
    def device(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.tensor.device.index or 0)

    @property
    def T(self) -> "Array":
        return self._like(_reversed(self.tensor))

    def __len__(self) -> int:
        return len(self.tensor)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __float__(self) -> float:
        return float(self.tensor)

    def __int__(self) -> int:
        return int(self.tensor)

    def __index__(self) -> int:
        return operator.index(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __repr__(self) -> str:
        return f"Array({self.tensor!r})"

    # Elements.

    def __getitem__(self, key: Any) -> "Array":
        return self._like(allocating(operator.getitem, self.tensor, self._tensor_key(key)))

    def __setitem__(self, key: Any, value: Any) -> None:
        value = self.xp.operand(value)
        if isinstance(value, torch.Tensor):
            value = value.to(self.tensor.device, self.tensor.dtype)
        allocating(operator.setitem, self.tensor, self._tensor_key(key), value)

    def _tensor_key(self, key):
        """Return an index with tensors in place of arrays."""
        if isinstance(key, tuple):
            return tuple(map(self._tensor_key, key))
        if isinstance(key, np.integer):
            return int(key)
        if isinstance(key, (Array, np.ndarray, list)):
            tensor = self.xp.asarray(key).tensor
            # PyTorch takes bytes for a mask.
            dtype = tensor.dtype if tensor.dtype == torch.bool else torch.int64
            return tensor.to(self.tensor.device, dtype)
        return key

    # Copies and views.

    def astype(self, dtype: npt.DTypeLike, order: str = "K", copy: bool = True) -> "Array":
        to = torch_dtype(dtype)
        tensor = allocating(self.tensor.to, self.xp.place(to), to, copy=copy)
        return self._like(tensor if order == "K" else _in_order(tensor, order))

    def copy(self, order: str = "C") -> "Array":
        return self._like(_in_order(self.tensor, order, is_copy=True))

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
        if order == "C":
            return self._like(allocating(self.tensor.reshape, shape))
        return self._like(
            _reversed(allocating(_reversed(self.tensor).reshape, tuple(reversed(shape))))
        )

    def ravel(self) -> "Array":
        return self.reshape(-1)

    def transpose(self, *axes: int) -> "Array":
        return self._like(self.tensor.permute(axes))

    def view(self, dtype: npt.DTypeLike) -> "Array":
        return self._like(self.tensor.view(torch_dtype(dtype)))

    def diagonal(self) -> "Array":
        return self._like(self.tensor.diagonal())

    # Reductions.

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> "Array":
        return self._reduce(torch.sum, axis, dtype, keepdims)

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> "Array":
        is_float = self.tensor.is_floating_point()
        return self._reduce(torch.mean, axis, dtype or (None if is_float else float), keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> "Array":
        return self._reduce(torch.amax, axis, None, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> "Array":
        return self._reduce(torch.amin, axis, None, keepdims)

    def any(self, axis: Any = None) -> "Array":
        return self._reduce(torch.any, axis)

    def all(self, axis: Any = None) -> "Array":
        return self._reduce(torch.all, axis)

    def argmax(self, axis: int | None = None) -> "Array":
        return self._like(torch.argmax(self.tensor, dim=axis))

    def argmin(self, axis: int | None = None) -> "Array":
        return self._like(torch.argmin(self.tensor, dim=axis))

    def _reduce(self, function, axis, dtype=None, keepdims=False):
        tensor = self.tensor if dtype is None else self.astype(dtype, copy=False).tensor
        axis = tuple(range(tensor.ndim)) if axis is None else axis
        return self._like(allocating(function, tensor, dim=axis, keepdim=keepdims))

    def _like(self, tensor):
        return Array(tensor, self.xp)


def _operator(function, is_reflected=False):
    def operate(self, other):
        other = self.xp.operand(other)
        if other is NotImplemented:
            return other
        a, b = same_device(self.tensor, other)
        pair = (b, a) if is_reflected else (a, b)
        return Array(allocating(function, *pair), self.xp)

    return operate


def _in_place(function):
    def operate(self, other):
        other = self.xp.operand(other)
        if isinstance(other, torch.Tensor):
            other = other.to(self.tensor.device)
        allocating(function, self.tensor, other)
        return self

    return operate


def _multiply(a, b):
    """Return a b, for any two dtypes."""
    dtype = torch.promote_types(a.dtype, b.dtype)
    return torch.matmul(a.to(dtype), b.to(dtype))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    _plain = getattr(operator, f"__{_name}__")
    setattr(Array, f"__{_name}__", _operator(_plain))
    setattr(Array, f"__r{_name}__", _operator(_plain, is_reflected=True))
    setattr(Array, f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Array, f"__{_name}__", _operator(getattr(operator, _name)))
for _name in ("neg", "invert", "abs"):
    _plain = getattr(operator, _name)
    setattr(Array, f"__{_name}__", lambda self, f=_plain: self._like(allocating(f, self.tensor)))
Array.__matmul__ = _operator(_multiply)  # type: ignore[attr-defined]


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

    def eye(self, n: int, order: str = "C") -> Array:
        result = self.zeros((n, n), order=order)
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
        return Array(tensor if order == "C" else _reversed(tensor), self)

    def asarray(self, values: Any, dtype: Any = None, order: str | None = None) -> Array:
        """Return values as an array, without a copy where that is possible."""
        tensor = values.tensor if isinstance(values, Array) else _from_host(np.asarray(values))
        to = tensor.dtype if dtype is None else torch_dtype(dtype)
        tensor = allocating(tensor.to, self.place(to), to)
        return Array(tensor if order is None else _in_order(tensor, order), self)

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
        tensors = [tensor.to(dtype) for tensor in tensors]
        return Array(allocating(function, *args, *tensors, **kwargs), self)

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
        if not isinstance(operands[0], torch.Tensor):
            to = operands[1].dtype
            operands[0] = torch.full((), operands[0], dtype=to, device=operands[1].device)
        if out is None:
            return Array(allocating(function, *same_device(*operands)), self)
        here = [o.to(out.tensor.device) if isinstance(o, torch.Tensor) else o for o in operands]
        allocating(function, *here, out=out.tensor)
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


def same_device(*operands: Any) -> tuple[Any, ...]:
    """Return tensors and numbers; the tensors on the host, unless all are on one device."""
    places = {o.device for o in operands if isinstance(o, torch.Tensor)}
    if len(places) == 1:
        return operands
    return tuple(o.cpu() if isinstance(o, torch.Tensor) else o for o in operands)


def _norm(A: Array, axis: int | None = None) -> Array:
    return A._like(torch.linalg.vector_norm(A.tensor, dim=axis))


def _reversed(tensor):
    """Return a view with the axes in reverse order."""
    return tensor.permute(*range(tensor.ndim - 1, -1, -1))


def _in_order(tensor, order, is_copy=False):
    """Return a tensor with contiguous rows (C) or columns (F)."""
    if order == "F":
        return _reversed(_in_order(_reversed(tensor), "C", is_copy))
    if is_copy:
        return allocating(tensor.clone, memory_format=torch.contiguous_format)
    return allocating(tensor.contiguous)


def _from_host(array):
    """Return a tensor with the memory of an array of the host, where PyTorch has its dtype."""
    if array.dtype.name in _WIDER:
        array = array.astype(_WIDER[array.dtype.name])
    if any(step < 0 for step in array.strides) or not array.dtype.isnative:
        array = np.array(array, array.dtype.newbyteorder("="))
    return torch.from_numpy(array if array.flags.writeable else _as_writeable(array))


def _as_writeable(array):
    """Return a view of a read-only array that does not say so: PyTorch warns of one that does."""
    data = array.__array_interface__ | {"data": (array.ctypes.data, False)}
    view = np.asarray(SimpleNamespace(__array_interface__=data, base=array))
    return view.view(array.dtype)
