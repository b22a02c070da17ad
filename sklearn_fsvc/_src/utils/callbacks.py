"""Callbacks: progress of a fit, and compilation of kernels."""

from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

# Callbacks of scikit-learn 1.9: what hears of the tasks of a fit. Before 1.9 nobody hears.

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn 1.8

    class CallbackSupportMixin:
        """There are no callbacks to set."""

    def with_callbacks(method):
        return method


# Parts are numbered by how many there are, and several threads may share a pass.
_COUNTING = Lock()


class Observable(CallbackSupportMixin):
    """A mixin: callbacks may be set, and stay out of what is saved of a fitted estimator."""

    def __getstate__(self):
        """Return the state; once there is a fit, without callbacks, which go along to a worker."""
        state = super().__getstate__()
        is_fitted = any(name.endswith("_") and name[0] != "_" for name in state)
        if not is_fitted:
            return state
        return {name: value for name, value in state.items() if name != "_skl_callbacks"}

    def _begin_fit(self, X, y, sample_weight):
        """The `FitTask` of a fit; one that nobody hears of where there is no callback."""
        if not hasattr(self, "_skl_callbacks"):
            return NO_CALLBACKS
        task = FitTask(self, self._init_callback_context(max_subtasks=None))
        return task.begin(X=X, y=y, metadata=_metadata(sample_weight))

    def _end_fit(self, task, X, y, sample_weight):
        # With no more attributes than it has, the estimator is what a callback may score.
        task.end(X=X, y=y, metadata=_metadata(sample_weight), reconstruction_attributes={})


def _metadata(sample_weight):
    return None if sample_weight is None else {"sample_weight": sample_weight}


def propagate_callbacks(context, estimator):
    """Context in which callbacks hear of the fit of another estimator, if anybody hears of this."""
    return context.propagate_callback_context(estimator) if context else nullcontext()


@dataclass(frozen=True)
class FitTask:
    """A task of a fit, or a part of one, that callbacks hear of.

    What a callback returns at its end stops nothing: sums of some of the rows would be those of
    another model.
    """

    estimator: Any = None  # whose callbacks they are
    # scikit-learn's `CallbackContext`; None where nobody hears of it, nor of its parts.
    context: Any = None

    def part(self, name, n_parts=0, number=None, in_order=True):
        """Return a part of this task, which has not begun.

        It will have `n_parts` parts itself, at most, which begin one after the other if `in_order`;
        None where their number is not known. `number` is its place among the parts, where these do
        not come in order.
        """
        if self.context is None:
            return self
        with _COUNTING:
            context = self.context.subcontext(
                task_name=name, task_id=number, max_subtasks=n_parts, sequential_subtasks=in_order
            )
        return FitTask(self.estimator, context)

    def begin(self, **data):
        """Tell callbacks that it begins; `data` as of scikit-learn's ``call_on_fit_task_begin``."""
        if self.context is not None:
            self.context.call_on_fit_task_begin(estimator=self.estimator, **data)
        return self

    def end(self, **data):
        """Tell callbacks that it is done."""
        if self.context is not None:
            self.context.call_on_fit_task_end(estimator=self.estimator, **data)


# A task where there are no callbacks.
NO_CALLBACKS = FitTask()


# Notices that loops are compiled: the first call blocks for seconds meanwhile.

_listeners = []


@contextmanager
def on_compile(notify):
    """Context in which ``notify()`` is called once, as soon as something is compiled."""
    _listeners.append(notify)
    try:
        yield
    finally:
        with suppress(ValueError):  # it was called, and removed, already
            _listeners.remove(notify)


def compiling():
    """Call all functions of `on_compile`, once."""
    while _listeners:
        _listeners.pop()()
