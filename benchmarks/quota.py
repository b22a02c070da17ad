"""Measure fits under a CPU quota, as in a container, on a host with more cores (root, Linux).

python benchmarks/quota.py [--cores 2] [--rows 500,4000,20000] [--blind] [--json FILE]

Creates a control group with the quota; a process in it sees it as its own (a bind mount in a mount
namespace), as in a container. "masked" has an affinity mask of as many processors: without
throttling, it is the expected time. If no control group can be created, the quota is simulated: the
process reads it from LOKY_MAX_CPU_COUNT, and the host does not throttle. `--blind` also measures
processes that cannot see their quota.
"""

import os
import shlex
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from _report import arguments, report

GROUPS, PERIOD = Path("/sys/fs/cgroup"), 100_000
FIT = """
import sys, time, statistics
from sklearn.datasets import make_classification
from sklearn_fsvc import RBFClassifier
from sklearn_fsvc._src.engines.threads import n_threads
RBFClassifier(random_state=0).fit(*make_classification(200, 10, random_state=0))
print(n_threads())
for n in {sizes}:
    X, y = make_classification(n, 10, n_informative=6, random_state=0)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        RBFClassifier(random_state=0).fit(X, y)
        times.append(time.perf_counter() - start)
    print(n, statistics.median(times))
"""


@contextmanager
def control_group(cores):
    """Yield a control group with the quota and its mount point, None if it cannot be created."""
    is_second = (GROUPS / "cgroup.controllers").exists()
    place = GROUPS if is_second else GROUPS / "cpu"
    group = place / f"quota{os.getpid()}"
    try:
        if is_second:
            (place / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if is_second:
            (group / "cpu.max").write_text(f"{cores * PERIOD} {PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(cores * PERIOD))
    except OSError as error:
        print(f"no control group can be made ({error}): the quota is simulated")
        group = None
    try:
        yield group, place
    finally:
        if group is not None and group.exists():
            group.rmdir()


def in_group(group, place, command):
    """Return the command of a process in the group, which sees it as that of its container."""
    inside = f"echo $$ > {group}/cgroup.procs; mount --bind {group} {place}; exec {command}"
    return ["unshare", "--mount", "sh", "-c", inside]


def times_of(command, **env):
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    threads, *lines = done.stdout.splitlines()
    return int(threads), {int(n): float(t) for n, t in map(str.split, lines)}


def main(args):
    code = FIT.format(sizes=[int(n) for n in args.rows.split(",")])
    python = [sys.executable, "-c", code]
    mask = ",".join(map(str, sorted(os.sched_getaffinity(0))[: args.cores]))
    results = {"masked": times_of(["taskset", "--cpu-list", mask, *python])}
    with control_group(args.cores) as (group, place):
        if group is not None and shutil.which("unshare"):
            results["in a quota"] = times_of(in_group(group, place, shlex.join(python)))
            # As a library that counts the cores of the host.
            if args.blind:
                command = f"echo $$ > {group}/cgroup.procs; exec {shlex.join(python)}"
                results["in a quota, not seen"] = times_of(["sh", "-c", command])
        else:
            results["limited by LOKY_MAX_CPU_COUNT"] = times_of(
                python, LOKY_MAX_CPU_COUNT=str(args.cores)
            )
    rows = []
    for name, (threads, times) in results.items():
        rows.append((f"{name}: threads", threads))
        rows += [(f"{name}: {n} rows, s", t) for n, t in times.items()]
    report(args, f"a quota of {args.cores}", rows, host=os.cpu_count())


if __name__ == "__main__":
    main(
        arguments(
            cores={"type": int, "default": 2},
            rows={"default": "500,4000,20000"},
            blind={"action": "store_true"},
        )
    )
