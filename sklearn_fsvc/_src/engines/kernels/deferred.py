"""Kernels of a GPU that are made when somebody compiles them, and have a name before."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, wraps


@dataclass(frozen=True)
class Kernel:
    """A kernel that is known by what makes it.

    Parameters
    ----------
    make : callable
        What makes the kernel for the compiler. It imports the compiler.
    parameters : tuple
        What it is called with. Their texts tell kernels apart.
    """

    make: Callable
    parameters: tuple

    @property
    def module(self):
        """Name of the module in which it is written."""
        return self.make.__module__

    @property
    def name(self):
        return " ".join([self.make.__name__, *map(_text, self.parameters)])

    @cached_property
    def code(self):
        """What the compiler takes."""
        return self.make(*self.parameters)


def _text(parameter):
    return "x".join(map(str, parameter)) if isinstance(parameter, tuple) else str(parameter)


def deferred(make):
    """Decorator: a function that makes a kernel becomes one that gives a `Kernel`."""

    @wraps(make)
    @cache
    def handle(*parameters):
        return Kernel(make, parameters)

    return handle
