"""Who is told that something is compiled: the first call waits for it, and looks like a hang."""

from contextlib import contextmanager

_listeners = []


@contextmanager
def told(tell):
    """Context in which ``tell(what)`` is called with what is compiled, each text once."""
    heard = set()

    def once(what):
        if what not in heard:
            heard.add(what)
            tell(what)

    _listeners.append(once)
    try:
        yield
    finally:
        _listeners.remove(once)


def compiling(what):
    """Say that this is compiled now, to all who want to know."""
    for listener in list(_listeners):
        listener(what)
