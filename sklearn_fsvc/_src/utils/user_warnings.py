"""Warnings that point to the user's line of code."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from types import FrameType

# Packages whose frames are skipped: ours, and those through which the user may call us.
_SKIPPED = {
    "sklearn_fsvc", "sklearn", "joblib", "contextlib", "pickle", "skops", "threading",
    "multiprocessing",
}  # fmt: skip


# A context variable, since `warnings.catch_warnings` would affect all threads.
_IS_SILENT = ContextVar("_IS_SILENT", default=False)
# In a thread of this package: the frame of the thread that started it.
_CALLER: ContextVar[FrameType | None] = ContextVar("_CALLER", default=None)


def context_for_thread() -> Context:
    """Return a copy of the context for another thread, whose warnings have the same origin."""
    context = copy_context()
    context.run(_CALLER.set, sys._getframe(1))
    return context


@contextmanager
def without_warnings() -> Iterator[None]:
    """Context in which `warn` does nothing, in this thread."""
    token = _IS_SILENT.set(True)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn with the innermost line outside of this package and of scikit-learn as its origin.

    A `stacklevel` could not do this: the number of our frames depends on the caller.
    """
    if _IS_SILENT.get():
        return
    frame = _first_of_user(sys._getframe(1))
    if (caller := _CALLER.get()) is not None and _is_skipped(frame):
        frame = _first_of_user(caller)
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )  # fmt: skip


def _first_of_user(frame: FrameType) -> FrameType:
    """Return the innermost frame that is not skipped, or the outermost one."""
    while _is_skipped(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _is_skipped(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _SKIPPED
