"""Docstrings of classes and methods with common parameters, each of which is described once.

>>> SHARED = read_entries('''
... device : str, default="auto"
...     Engine that computes the layer.
... ''')
>>> @fill_docstring(SHARED)
... class Network:
...     '''A network.
...
...     Parameters
...     ----------
...     %(device)s
...     '''
>>> print(inspect.getdoc(Network))
A network.
<BLANKLINE>
Parameters
----------
device : str, default="auto"
    Engine that computes the layer.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from textwrap import indent
from typing import Any, TypeVar

_Documented = TypeVar("_Documented", bound=Any)
_ENTRY = re.compile(r"^(?=\w)", re.MULTILINE)  # the start of a line that is not indented
_PLACEHOLDER = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)
_INLINE = re.compile(r"%\((\w+)\)s")


def read_entries(text: str) -> dict[str, str]:
    """Return numpydoc entries by name: of parameters or of attributes.

    An entry that describes several names, as in ``alphas_, loo_errors_ : ndarray``, has the
    first of them.
    """
    entries = (entry.strip() for entry in _ENTRY.split(inspect.cleandoc(text)) if entry)
    return {re.match(r"\w+", entry)[0]: entry for entry in entries}  # type: ignore[index]


def fill_docstring(*entries: Mapping[str, str]) -> Callable[[_Documented], _Documented]:
    """Return a decorator that fills in the placeholders of the docstring of a class or function.

    A placeholder is a line ``%(name)s``; the entry of that name takes its place, indented as
    it is. Within a line, also within one of an entry, it is a phrase. If several mappings have an
    entry, the last one counts.
    """
    by_name = {name: entry for mapping in entries for name, entry in mapping.items()}

    def fill(documented: _Documented) -> _Documented:
        if documented.__doc__ is not None:  # it is under `python -OO`
            text = _PLACEHOLDER.sub(lambda m: indent(by_name[m[2]], m[1]), documented.__doc__)
            documented.__doc__ = _INLINE.sub(lambda m: by_name[m[1]], text)
        return documented

    return fill
