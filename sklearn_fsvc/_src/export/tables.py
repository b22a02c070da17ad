"""Arrays as constants of C99."""

from dataclasses import dataclass

import numpy as np

# What a constant of a type ends in.
_ENDS = {"float": "f", "int64_t": "LL"}
_A_LINE = 12
# The type of strings, after ``const``.
TEXT = "char *const"


@dataclass(frozen=True, eq=False)
class Table:
    """A constant array, without dimensions within: any compiler takes it without more braces."""

    name: str
    ctype: str
    values: np.ndarray
    n_bytes: int  # on a machine whose pointers have 4 bytes

    @classmethod
    def of(cls, name, values):
        """Make the table of an array of numbers, in their own type."""
        return cls(name, ctype_of(values.dtype), values, values.nbytes)

    def __str__(self):
        written = [literal(value, self.ctype) for value in self.values.ravel()]
        lines = [", ".join(written[i : i + _A_LINE]) for i in range(0, len(written), _A_LINE)]
        head = f"static const {self.ctype} {self.name}[{len(written)}] = {{"
        return "\n".join([head, *(f"    {line}," for line in lines), "};"])


def ctype_of(dtype):
    """The C type of an array's elements."""
    dtype = np.dtype(dtype)
    floats = {4: "float", 8: "double"}
    return floats[dtype.itemsize] if dtype.kind == "f" else f"{dtype.name}_t"


def literal(value, ctype):
    """A constant that the compiler reads back as the same number, or the same text."""
    if ctype == TEXT:
        return _quoted(str(value))
    return f"{value!s}{_ENDS.get(ctype, '')}"


def table_of_labels(name, classes):
    """Return the classes of a classifier: numbers, or strings in UTF-8; TypeError for others."""
    kind = classes.dtype.kind
    if kind in "OTU" and all(isinstance(label, str) for label in classes):
        n_bytes = sum(4 + len(label.encode()) + 1 for label in classes)
        return Table(name, TEXT, classes, n_bytes)
    largest = max(abs(int(label)) for label in classes) if kind in "biu" else np.inf
    if largest < 2**63:
        is_short = largest < 2**31
        return Table.of(name, classes.astype(np.int32 if is_short else np.int64))
    if kind == "f":
        return Table.of(name, classes.astype(np.float64))
    raise TypeError(
        f"classes_={classes!r} are neither whole numbers, floats nor strings; fit the model to "
        "numbers of the classes, from 0."
    )


def _quoted(text):
    """A C string; what is not plain ASCII is in octal, and so are question marks (trigraphs)."""
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'
