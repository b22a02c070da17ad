"""Warnings that point to the line of the user."""

import sys
import warnings

# Packages whose lines are not the user's: ours, and those that call us in their turn.
_INSIDE = {"sklearn_fsvc", "sklearn", "joblib", "contextlib", "pickle", "skops"}


def warn(message, category=UserWarning):
    """Warn at the innermost line that is outside this package and scikit-learn."""
    frame = sys._getframe(1)
    while _is_inside(frame) and frame.f_back is not None:
        frame = frame.f_back
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )  # fmt: skip


def _is_inside(frame):
    return frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE
