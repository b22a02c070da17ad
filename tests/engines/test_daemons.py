"""Threads that no program waits for: interrupts, forks, and the end of a process."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from sklearn_fsvc._src.engines import ENGINES
from sklearn_fsvc._src.engines.threads import Daemons

# Long enough for a machine that is busy; what hangs, hangs for ever.
PATIENCE = 120
INTERRUPTS = 100
START = """
import os, random, signal, sys, threading, time
import numpy as np
from sklearn_fsvc import RBFProjector, TanhProjector, TanhClassifier
from sklearn_fsvc._src.engines import blas, threads

blas.n_threads = lambda: 2
X = np.random.default_rng(0).random((3000, 40), dtype=np.float32)
"""
INTERRUPTED_AT_A_START = """
start, is_first = threading.Thread.start, [True]

def interrupted(thread):
    start(thread)
    if is_first:
        is_first.clear()
        raise KeyboardInterrupt

projector = TanhProjector(600, random_state=0, device="blas").fit(X)
threads._pool.cache_clear()  # threads are started anew
threading.Thread.start = interrupted
try:
    projector.transform(X)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
MANY_INTERRUPTS = f"""
def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
draw, n, wrong = random.Random(0), 0, 0
models = [
    TanhProjector(100, random_state=0, device="blas").fit(X),
    RBFProjector(100, radius=2.0, selection="random", random_state=0, device="jit").fit(X[:300]),
]
expected = [model.transform(X) for model in models]
began = time.perf_counter()
[model.transform(X) for model in models]
longest = time.perf_counter() - began
while n < {INTERRUPTS}:
    try:
        threads._pool.cache_clear()
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, longest))
        end = time.perf_counter() + 1
        while time.perf_counter() < end:  # what a destructor hears goes no further
            for model, H in zip(models, expected):
                wrong += not np.array_equal(model.transform(X), H)
    except KeyboardInterrupt:
        n += 1
    except RuntimeError as error:  # of Python's own lock, as a thread is started
        if "unlocked lock" not in str(error):
            raise
        n += 1
print("interrupted" if not wrong else "wrong", flush=True)
"""


def ends(code, *args):
    """Run a program; what it said, once it has ended by itself."""
    command = [sys.executable, "-c", START + code, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_program_ends_after_the_start_of_a_thread_and_much_else_was_interrupted():
    has_timer = hasattr(signal, "setitimer")
    said = ends(INTERRUPTED_AT_A_START + MANY_INTERRUPTS * has_timer)
    assert said.split() == ["interrupted"] * (1 + has_timer)


FORKED = f"""
y = (X[:, 0] > 0.5).astype(int)
for device in sys.argv[1:]:
    model = TanhClassifier(200, alpha=1.0, feature_weights=None, random_state=0, device=device)
    expected = model.fit(X, y).decision_function(X)
    child = os.fork()
    if child == 0:
        found = model.fit(X, y).decision_function(X)
        os._exit(0 if np.abs(found - expected).max() < 1e-2 else 1)
    deadline, done = time.monotonic() + {PATIENCE // 4}, 0
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(child, signal.SIGKILL)
    print(device, status if done else "hung", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_fits_as_its_parent_did():
    devices = [n for n in ("jit", "blas", "mkl") if ENGINES[n]().why_unavailable() is None]
    assert ends(FORKED, *devices).splitlines() == [f"{device} 0" for device in devices]


def test_results_and_errors_come_in_the_order_of_tasks():
    with Daemons(1) as threads:
        done = [threads.submit(divmod, 7, k) for k in (2, 0, 3)]
        assert done[0].result(PATIENCE) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            done[1].result(PATIENCE)
        assert done[2].result(PATIENCE) == (2, 1)


def test_what_is_cancelled_is_not_called():
    may_go_on, called = threading.Event(), []
    with Daemons(1) as threads:
        first = threads.submit(may_go_on.wait, PATIENCE)
        while not first.running():
            time.sleep(0.001)
        second = threads.submit(called.append, 1)
        assert second.cancel()
        may_go_on.set()
    assert first.result() is True
    assert not called


def test_all_is_done_before_they_end():
    done = []
    with Daemons(3, "sklearn_fsvc_some") as threads:
        for i in range(30):
            threads.submit(done.append, i)
    assert sorted(done) == list(range(30))
    assert not [t for t in threading.enumerate() if t.name.startswith("sklearn_fsvc_some")]
