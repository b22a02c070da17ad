"""Callbacks: progress of a fit for scikit-learn's callbacks, and compilation of kernels."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks  # others import it from here
except ImportError:  # scikit-learn 1.8 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Replacement without `set_callbacks`."""

    def with_callbacks(method):
        return method


# scikit-learn numbers a subtask by the number of those before it, without a lock; but several
# threads may share a pass.
_NUMBERING = Lock()


class CallbackMixin(CallbackSupportMixin):
    """Mixin: callbacks may be set, and are not pickled with a fitted estimator."""

    def __getstate__(self):
        """Return the state, without the callbacks once there are fitted attributes.

        Before the fit they are kept: an unfitted estimator is pickled to be fitted in a worker.
        """
        state = super().__getstate__()
        is_fitted = any(name.endswith("_") and name[0] != "_" for name in state)
        if not is_fitted:
            return state
        return {name: value for name, value in state.items() if name != "_skl_callbacks"}

    def _begin_fit(self, X: Any, y: Any, sample_weight: Any) -> "FitTask":
        """Return the task of a fit, after notifying callbacks; `NO_CALLBACKS` if none are set."""
        if not hasattr(self, "_skl_callbacks"):
            return NO_CALLBACKS
        task = FitTask(self, self._init_callback_context(max_subtasks=None))
        return task.begin(X=X, y=y, metadata=_metadata(sample_weight))

    def _end_fit(self, task: "FitTask", X: Any, y: Any, sample_weight: Any) -> None:
        """Notify callbacks of the end of a fit."""
        # All fitted attributes are set: a callback can score the estimator without more of them.
        task.end(X=X, y=y, metadata=_metadata(sample_weight), reconstruction_attributes={})


def _metadata(sample_weight):
    return None if sample_weight is None else {"sample_weight": sample_weight}


def propagate_callbacks(context: Any, estimator: Any) -> AbstractContextManager:
    """Enter a context in which the fit of another estimator is reported as a subtask, if any is.

    `context` is scikit-learn's `CallbackContext`, or None without callbacks.
    """
    return context.propagate_callback_context(estimator) if context else nullcontext()


@dataclass(frozen=True)
class FitTask:
    """A task or subtask of a fit, whose begin and end are reported to callbacks.

    A callback cannot stop a fit by its return value: sums over some of the samples would be those
    of another model.
    """

    estimator: Any = None  # whose callbacks they are
    # scikit-learn's `CallbackContext`; None where there are no callbacks.
    context: Any = None

    def subtask(
        self, name: str, n_parts: int | None = 0, number: int | None = None, in_order: bool = True
    ) -> "FitTask":
        """Return a subtask, which has not begun.

        Parameters
        ----------
        name : str
        n_parts : int or None
            Upper bound of its own subtasks; None if unknown.
        number : int, optional
            The index of the subtask, where these do not begin in order.
        in_order : bool, default=True
            Whether its own subtasks will begin one after the other.
        """
        if self.context is None:
            return self
        with _NUMBERING:
            context = self.context.subcontext(
                task_name=name, task_id=number, max_subtasks=n_parts, sequential_subtasks=in_order
            )
        return FitTask(self.estimator, context)

    def begin(self, **data: Any) -> "FitTask":
        """Notify callbacks of the begin, with `data` for ``call_on_fit_task_begin``."""
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator, **data)
        return self

    def end(self, **data: Any) -> None:
        """Notify callbacks of the end, with `data` for ``call_on_fit_task_end``."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, **data)


# The task of a fit without callbacks, and of all its subtasks.
NO_CALLBACKS = FitTask()


# Notices of compilation, by which the first call of a kernel blocks for seconds.

_listeners: list[Callable[[], object]] = []


@contextmanager
def on_compile(notify: Callable[[], object]) -> Iterator[None]:
    """Call ``notify()`` once, as soon as a kernel is compiled in this context."""
    _listeners.append(notify)
    try:
        yield
    finally:
        with suppress(ValueError):  # already called, and so removed
            _listeners.remove(notify)


def notify_compile() -> None:
    """Call the functions passed to `on_compile`, each once."""
    while _listeners:
        _listeners.pop()()
