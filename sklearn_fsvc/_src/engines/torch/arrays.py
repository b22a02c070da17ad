"""NumPy's interface over PyTorch's tensors: arrays, whose functions are in `namespace`.

The readouts are written for NumPy and for libraries with the same interface. Those of the array API
standard, such as `array_api_compat.torch`, have no ``out=``, no methods and no memory order, which
the readouts need for work in place; and PyTorch's own interface of this kind, ``torch._numpy``, is
private, and its dtypes are not NumPy's. So an `Array` holds a tensor, and a `Namespace` the
functions.

Where a device has no float64, arrays of float64 are tensors of the host. An operation on arrays of
both computes on the host, or where it writes to.
"""

import operator
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

# Unsigned integers for which PyTorch has no arithmetic, and signed ones that represent all of them.
WIDER = {"uint16": "int32", "uint32": "int64"}


@cache
def torch_dtype(dtype: Any) -> torch.dtype:
    """Return PyTorch's dtype for one of NumPy's, a wider one for unsigned integers."""
    name = np.dtype(dtype).name
    return getattr(torch, WIDER.get(name, name))


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


def same_device(*operands: Any) -> tuple[Any, ...]:
    """Return tensors and numbers; the tensors on the host, unless all are on one device."""
    places = {o.device for o in operands if isinstance(o, torch.Tensor)}
    if len(places) == 1:
        return operands
    return tuple(o.cpu() if isinstance(o, torch.Tensor) else o for o in operands)


def moved(tensor: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor on a device in a dtype: itself, if it is that already."""
    if device.type == "cpu":  # the other one may not have the dtype
        return allocating(allocating(tensor.to, device).to, dtype)
    return allocating(allocating(tensor.to, dtype).to, device)


def on_device_of(operand: Any, target: torch.Tensor) -> Any:
    """Return the operand; a tensor of another device is moved to that of `target`, in its dtype."""
    if not isinstance(operand, torch.Tensor) or operand.device == target.device:
        return operand
    return moved(operand, target.device, target.dtype)


def reverse_axes(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view with the axes in reverse order."""
    return tensor.permute(*range(tensor.ndim - 1, -1, -1))


def in_order(tensor: torch.Tensor, order: str, is_copy: bool = False) -> torch.Tensor:
    """Return a tensor with contiguous rows (C) or columns (F)."""
    if order == "F":
        return reverse_axes(in_order(reverse_axes(tensor), "C", is_copy))
    if is_copy:
        return allocating(tensor.clone, memory_format=torch.contiguous_format)
    return allocating(tensor.contiguous)


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

    def __init__(self, tensor: torch.Tensor, xp: Any) -> None:
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
        is_contiguous = [t.is_contiguous() for t in (self.tensor, reverse_axes(self.tensor))]
        return SimpleNamespace(c_contiguous=is_contiguous[0], f_contiguous=is_contiguous[1])

    @property
    def device(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.tensor.device.index or 0)

    @property
    def T(self) -> "Array":
        return self._like(reverse_axes(self.tensor))

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
        # PyTorch cannot index uint64 tensors on a GPU: use the same bits as int64.
        is_unsigned = self.tensor.dtype == torch.uint64
        tensor = self.tensor.view(torch.int64) if is_unsigned else self.tensor
        taken = allocating(operator.getitem, tensor, self._tensor_key(key))
        return self._like(taken.view(torch.uint64) if is_unsigned else taken)

    def __setitem__(self, key: Any, value: Any) -> None:
        value = self.xp.operand(value)
        if isinstance(value, torch.Tensor):
            value = moved(value, self.tensor.device, self.tensor.dtype)
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

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> "Array":
        to = torch_dtype(dtype)
        tensor = moved(self.tensor, self.xp.place(to), to)
        if tensor is self.tensor and copy:
            tensor = allocating(tensor.clone)
        return self._like(tensor if order == "K" else in_order(tensor, order))

    def copy(self, order: str = "C") -> "Array":
        return self._like(in_order(self.tensor, order, is_copy=True))

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        shape = tuple(shape[0]) if isinstance(shape[0], (tuple, list)) else shape
        if order == "C":
            return self._like(allocating(self.tensor.reshape, shape))
        return self._like(
            reverse_axes(allocating(reverse_axes(self.tensor).reshape, tuple(reversed(shape))))
        )

    def ravel(self) -> "Array":
        return self.reshape(-1)

    def transpose(self, *axes: int) -> "Array":
        return self._like(self.tensor.permute(axes))

    def view(self, dtype: Any) -> "Array":
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
        tensor = self.tensor
        needs_float = function is operator.__truediv__ or isinstance(other, float)
        if needs_float and not tensor.is_floating_point():
            tensor = self.astype(float).tensor  # PyTorch would round integers to float32
        a, b = same_device(tensor, other)
        pair = (b, a) if is_reflected else (a, b)
        return Array(allocating(function, *pair), self.xp)

    return operate


def _in_place(function):
    def operate(self, other):
        allocating(function, self.tensor, on_device_of(self.xp.operand(other), self.tensor))
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
setattr(Array, "__matmul__", _operator(_multiply))  # noqa: B010  (for mypy)
