"""Threads that wait for work, and that nobody waits for when a program ends.

Those of `concurrent.futures` are joined at the end of a program. One whose start was interrupted,
by Ctrl-C, is known to nobody who would tell it to end, and such a program hung.
"""

from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread


class Daemons:
    """A few threads, and what they are given to call, in its order.

    Their name is for who looks at the threads of a process.
    """

    def __init__(self, n, name="sklearn_fsvc"):
        self._tasks = SimpleQueue()
        self._threads = [
            Thread(target=_work, args=(self._tasks,), name=f"{name}_{i}", daemon=True)
            for i in range(n)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function, *args):
        """Have a thread call the function; the `Future` of its result."""
        future = Future()
        self._tasks.put((future, function, args))
        return future

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.end()

    def end(self):
        """Wait until all that was given is done, and the threads have ended."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


def _work(tasks):
    while (task := tasks.get()) is not None:
        _call(*task)
        del task  # what it holds is not kept until there is another one


def _call(future, function, args):
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
