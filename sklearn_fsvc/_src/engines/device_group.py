"""Several engines that work on one job."""

from concurrent.futures import wait
from threading import Event

from .threads import Daemons


class Stopped(Exception):
    """Another member failed, so this one ends."""


class Team:
    """Engines of one kind that share work, two at least. It is entered and refused like one engine.

    The first leads: it works in the thread that entered the team, and does what is not shared.
    Each other one has a thread of its own until the team is left.
    """

    def __init__(self, members):
        self.members, self._threads = members, []

    def why_unavailable(self):
        return next(filter(None, (member.why_unavailable() for member in self.members)), None)

    def __enter__(self):
        lead, *others = self.members
        lead.__enter__()
        lead.connect(self.members)
        lead.name = f"{type(lead).name}:{','.join(str(member.index) for member in self.members)}"
        lead.team = self
        self._threads = [Daemons(1, "sklearn_fsvc_team") for _ in others]
        for thread, member in zip(self._threads, others, strict=True):
            thread.submit(member.__enter__).result()
        return lead

    def __exit__(self, *exception):
        lead, *others = self.members
        for thread, member in zip(self._threads, others, strict=True):
            thread.submit(member.__exit__, *exception).result()
            thread.end()
        return lead.__exit__(*exception)

    def each(self, work, tasks):
        """``work(member, task, stop)`` side by side; the results in their order.

        Where one fails, or this thread is interrupted, `stop` is set, all are waited for, and
        the error is raised.

        Parameters
        ----------
        work : callable
            It should look at `stop`, a `threading.Event`, now and then, and raise `Stopped`.
        tasks : list
            One for each of the first members.
        """
        stop, lead = Event(), self.members[0]

        def guarded(member, task):
            try:
                result = work(member, task, stop)
                member.finish()  # others may look at what it has written
                return result
            except BaseException:
                stop.set()
                raise

        lead.finish()
        others = list(zip(self._threads, self.members[1:], tasks[1:], strict=False))
        running = [thread.submit(guarded, *of_member) for thread, *of_member in others]
        first = error = None
        try:
            first = guarded(lead, tasks[0])
            wait(running)
        except BaseException as raised:
            stop.set()
            error = raised
            wait(running)
        for found in (error, *(future.exception() for future in running)):
            if found is not None and not isinstance(found, Stopped):
                raise found
        return [first, *(future.result() for future in running)]
