"""What the equations of a ridge readout give, and a warning where they were bad."""

from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from ..user_warnings import warn


class Solution(NamedTuple):
    """A ridge readout."""

    W: Any  # (n_outputs, n_units)
    b: Any  # (n_outputs,)
    problem: str = ""  # what was wrong with the equations, "" if nothing


class Whitening(NamedTuple):
    """A basis in which the normal matrices of several penalties are diagonal.

    ``(A + alpha_k I)^-1 = basis diag(scale[:, k]) basis'`` for the centred ``A`` of the
    statistics.
    """

    basis: Any  # (n_units, n_directions)
    scale: Any  # (n_directions, n_penalties)
    problems: list[str]  # for each penalty, as `Solution.problem`
    is_triangular: bool = False  # whether the basis has only zeros below its diagonal


def warn_of(problem):
    """Warn of a `Solution.problem`, if there is one."""
    if problem:
        warn(problem, ConvergenceWarning)
