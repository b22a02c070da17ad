"""What a search says: its plan, and what went wrong."""

from sklearn.exceptions import ConvergenceWarning

from ..cautions import warn

# Ill-conditioned candidates that a warning names.
_NAMED = 5


def summary(groups, n_passes, findings):
    n_candidates, n_splits = len(findings.candidates), len(findings.splits)
    n_shared = sum(len(group.members) for group in groups)
    return (
        f"[HiddenSizeSearchCV] {n_candidates} candidates on {n_splits} splits: {n_shared} of "
        f"them in {n_passes} passes, {n_candidates - n_shared} fitted one by one"
    )


def warn_of_fits(networks, n_splits):
    """Say what a search costs whose networks share nothing, before it begins."""
    n = sum(getattr(network, "readout", None) == "softmax" for network in networks)
    if n:
        warn(
            f'readout="softmax" shares no work: {n} candidates on {n_splits} splits are '
            f"{n * n_splits} fits, of about 15 passes over the rows each. To be quick, search with "
            'readout="ridge", and fit the best candidate with "softmax".'
        )


def warn_of(findings):
    """Say what was ill-conditioned, and what had to be fitted one by one after all."""
    problems = findings.problems()
    if problems:
        named = "; ".join(f"{p}" for p in problems[:_NAMED])
        more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        warn(
            f"{len(problems)} of {len(findings.candidates)} candidates are ill-conditioned, and "
            f"directions were left out of their ridge readouts: {named}{more}. Raise alpha, or "
            "use fewer or narrower units.",
            ConvergenceWarning,
        )
    not_shared = [error for name, error in findings.errors.items() if name in findings.alone]
    if not_shared:
        warn(
            f"{len(findings.errors)} candidates could not share their work and were fitted one by "
            f"one, for {type(not_shared[0]).__name__}: {not_shared[0]}"
        )
