"""Notices that loops are compiled: the first call blocks for seconds meanwhile."""

from contextlib import contextmanager, suppress

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
