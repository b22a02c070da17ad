"""One model in several threads: who changes it waits for a turn, who asks has it as it stood.

All that a model has learnt lies in its attributes. Whatever changes it works on a copy, and the
attributes of the copied take the place of its own in one step. So there is no moment at which
a model is half of one thing and half of another: not for another thread, not for a copy, and
not for a child process that is forked meanwhile.
"""

import os
from functools import wraps
from threading import Lock, RLock
from weakref import WeakKeyDictionary

_MISSING = object()


class _Turns:
    """A lock for each model, kept outside of it: there is nothing to be copied or saved."""

    def __init__(self):
        self.reset()

    def reset(self):
        """Free for all: in a forked child nobody is left who would end a turn."""
        self._locks, self._guard = WeakKeyDictionary(), Lock()

    def of(self, model):
        with self._guard:
            return self._locks.setdefault(model, RLock())


_TURNS = _Turns()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_TURNS.reset)


def copy_of(model):
    """Another model with the same attributes, whatever becomes of those of the first."""
    copied = object.__new__(type(model))
    copied.__dict__ = vars(model).copy()
    return copied


def atomic_update(model, work):
    """Have work done on a copy; if nothing is raised, the model then has the copy's attributes.

    Others who would change the model wait. A parameter that is set meanwhile stays set. Returns
    the copy: what the model became, whatever becomes of it later.
    """
    # No context manager of ours: one that is interrupted as it begins would keep the lock.
    with _TURNS.of(model):
        start, before, copied = vars(model), dict(vars(model)), copy_of(model)
        work(copied)
        if vars(model) is not start:
            raise RuntimeError(
                f"This {type(model).__name__} was changed by the thread in which it is learning, "
                "from within a callback or while its rows were read. One of the two would be "
                "lost; learn first, and change it afterwards."
            )
        since = {k: v for k, v in start.items() if before.get(k, _MISSING) is not v}
        model.__dict__ = vars(copied) | since
    return copied


def on_snapshot(method):
    """A method that answers as the model stands when it is called, with its readout solved."""

    @wraps(method)
    def answer(self, *args, **options):
        return method(self._snapshot(), *args, **options)

    return answer
