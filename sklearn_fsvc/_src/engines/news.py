"""Who is told that loops are compiled: the first call waits for it, and looks like a hang."""

from contextlib import contextmanager, suppress

_listeners = []


@contextmanager
def told(tell):
    """Context in which ``tell()`` is called once, as soon as something is compiled."""
    _listeners.append(tell)
    try:
        yield
    finally:
        with suppress(ValueError):  # who was told listens no more
            _listeners.remove(tell)


def compiling():
    """Say that loops are compiled now, to all who want to know."""
    while _listeners:
        _listeners.pop()()
