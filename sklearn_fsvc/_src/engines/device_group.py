"""Several devices of one kind that work on one task."""

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from threading import Event
from typing import Any

from .base import Engine
from .threads import DaemonThreadPool

# Of the threads of the other devices.
THREAD_NAME = "sklearn_fsvc_device"


class WorkCancelled(Exception):
    """Raised by the work of a device after that of another device has failed."""


class DeviceGroup:
    """Two or more engines that share work; it is entered, or unavailable, like a single one.

    The first device works in the thread that entered the group, and does what is not shared.
    Each of the others has a thread of its own until the group is left.

    Parameters
    ----------
    members : list of Engine
        Two at least, with `index`, the number of the device.
    """

    def __init__(self, members: Sequence[Any]) -> None:
        self.members, self._threads = members, []  # type: ignore[var-annotated]

    def why_unavailable(self) -> str | None:
        """Return None if all devices work, else the reason of the first that does not."""
        return next(filter(None, (member.why_unavailable() for member in self.members)), None)

    def __enter__(self) -> Engine:
        first, *others = self.members
        first.__enter__()
        first.enable_peer_access(self.members)
        first.name = f"{type(first).name}:{','.join(str(member.index) for member in self.members)}"
        first.device_group = self
        self._threads = [DaemonThreadPool(1, THREAD_NAME) for _ in others]
        for thread, member in zip(self._threads, others, strict=True):
            thread.submit(member.__enter__).result()
        return first

    def __exit__(self, *exception: object) -> None:
        first, *others = self.members
        for thread, member in zip(self._threads, others, strict=True):
            thread.submit(member.__exit__, *exception).result()
            thread.shutdown()
        return first.__exit__(*exception)

    def map(self, work: Callable[[Any, Any, Event], Any], tasks: Sequence[Any]) -> list[Any]:
        """Call ``work(member, task, stop)`` on all devices at a time; return results in order.

        If one call fails, or this thread is interrupted, `stop` is set, and the error is raised
        after all calls have ended.

        Parameters
        ----------
        work : callable
            It should check `stop` regularly, and raise `WorkCancelled` if it is set.
        tasks : list
            One for each of the first members.
        """
        stop, first = Event(), self.members[0]

        def guarded(member, task):
            try:
                result = work(member, task, stop)
                member.synchronize()  # other devices may read what it has written
                return result
            except BaseException:
                stop.set()
                raise

        first.synchronize()
        others = list(zip(self._threads, self.members[1:], tasks[1:], strict=False))
        running = [thread.submit(guarded, member, task) for thread, member, task in others]
        result = error = None
        try:
            result = guarded(first, tasks[0])
            wait(running)
        except BaseException as raised:  # an interrupt may come while this thread waits
            stop.set()
            error = raised
            wait(running)
        for failure in (error, *(future.exception() for future in running)):
            if failure is not None and not isinstance(failure, WorkCancelled):
                raise failure
        return [result, *(future.result() for future in running)]
