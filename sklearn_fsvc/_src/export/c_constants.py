"""Constants in C: tables of numbers and strings, and literals."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Suffixes of literals, by the type of the constant.
_SUFFIXES = {"float": "f", "int64_t": "LL"}
_VALUES_PER_LINE = 12
# The type of string constants, after ``const``.
STRING = "char *const"
_POINTER_BYTES = 4  # on 32-bit microcontrollers


@dataclass(frozen=True, eq=False)
class Table:
    """A constant one-dimensional C array.

    Matrices are flattened, since compilers differ in the inner braces that they require.
    """

    name: str
    ctype: str
    values: npt.NDArray
    n_bytes: int

    @classmethod
    def from_numbers(cls, name: str, values: npt.NDArray) -> "Table":
        """Return the table of a numeric array, in the C type of its dtype."""
        return cls(name, ctype_of(values.dtype), values, values.nbytes)

    @classmethod
    def from_labels(cls, name: str, classes: npt.NDArray) -> "Table":
        """Return the table of the classes of a classifier: numbers, or strings in UTF-8.

        Raises TypeError for labels of other types, and for integers beyond 64 bits.
        """
        kind = classes.dtype.kind
        if kind in "OTU" and all(isinstance(label, str) for label in classes):
            n_bytes = sum(_POINTER_BYTES + len(label.encode()) + 1 for label in classes)
            return cls(name, STRING, classes, n_bytes)
        largest = max(abs(int(label)) for label in classes) if kind in "biu" else np.inf
        if largest < 2**63:
            return cls.from_numbers(name, classes.astype(np.int32 if largest < 2**31 else np.int64))
        if kind == "f":
            return cls.from_numbers(name, classes.astype(np.float64))
        raise TypeError(
            f"classes_={classes!r} are neither integers, floats nor strings; fit the model to "
            "integer codes of the classes, from 0."
        )

    def __str__(self) -> str:
        literals = [format_literal(value, self.ctype) for value in self.values.ravel()]
        starts = range(0, len(literals), _VALUES_PER_LINE)
        lines = [", ".join(literals[i : i + _VALUES_PER_LINE]) for i in starts]
        head = f"static const {self.ctype} {self.name}[{len(literals)}] = {{"
        return "\n".join([head, *(f"    {line}," for line in lines), "};"])


def ctype_of(dtype: npt.DTypeLike) -> str:
    """Return the C type of array elements of a dtype."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return {4: "float", 8: "double"}[dtype.itemsize]
    return f"{dtype.name}_t"


def format_literal(value: Any, ctype: str) -> str:
    """Return a constant that a compiler reads back as the same number or string."""
    if ctype == STRING:
        return _quote(str(value))
    return f"{value!s}{_SUFFIXES.get(ctype, '')}"


def _quote(text):
    """Return a C string; other than printable ASCII is octal, as is "?", which starts trigraphs."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'
