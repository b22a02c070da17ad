"""What the equations of a ridge readout give, and a warning where they were bad."""

from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from ..cautions import warn


class Solution(NamedTuple):
    """A ridge readout.

    Attributes
    ----------
    W : array of shape (n_outputs, n_units)
    b : array of shape (n_outputs,)
    problem : str
        What was wrong with the equations, "" if nothing.
    """

    W: Any
    b: Any
    problem: str = ""


class Whitening(NamedTuple):
    """A basis in which the normal matrices of several penalties are diagonal.

    ``(A + alpha_k I)^-1 = basis diag(scale[:, k]) basis'`` for the centred ``A`` of the
    statistics.

    Attributes
    ----------
    basis : array of shape (n_units, n_directions)
    scale : array of shape (n_directions, n_penalties)
    problems : list of str
        For each penalty, as `Solution.problem`.
    is_triangular : bool
        Whether the basis has only zeros below its diagonal.
    """

    basis: Any
    scale: Any
    problems: list
    is_triangular: bool = False


def warn_of(problem):
    """Warn of a `Solution.problem`, if there is one."""
    if problem:
        warn(problem, ConvergenceWarning)
