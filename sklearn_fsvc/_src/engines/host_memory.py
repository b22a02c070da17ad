"""The memory of the host: how much there is, and how much of it this process may still allocate."""

import math
import os
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from time import monotonic

# A fit of 100 samples asks several hundred times, too often to read files each time.
_READS_PER_SECOND = 50
# Assumed where the operating system does not report the size of its memory.
_DEFAULT_TOTAL = 4 * 2**30
# Names of the files of a Linux control group with its limit and its use, and the field of
# `memory.stat` with the part of the use that is page cache, which the kernel frees on demand.
_V1_NAMES = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_V2_NAMES = "memory.max", "memory.current", "inactive_file"


def host_memory() -> tuple[int, int]:
    """Return `read_host_memory` as of the last 20 ms."""
    return _host_memory_of(os.getpid(), int(_READS_PER_SECOND * monotonic()))


@lru_cache(maxsize=1)
def _host_memory_of(process_id, time):
    return read_host_memory()


def read_host_memory(root: str = "/") -> tuple[int, int]:
    """Return (free, total) bytes; free is what can be allocated without swapping, where known.

    A container or a batch job may have less than the machine: its control group has a limit, and
    so may every ancestor of it. The smallest remainder of them all is free.

    Parameters
    ----------
    root : str
        Folder that contains ``proc`` and ``sys``.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = _DEFAULT_TOTAL
    available = _available(root)
    free = total // 2 if available is None else available
    for limit, group, names in _limits(root, os.getpid(), total):
        total, free = min(total, limit), min(free, max(0, limit - _used(group, names)))
    return free, total


def _available(root):
    """Return the bytes that can be allocated without swapping; None if Linux does not report it.

    Called by each `predict`: the value is in one of the first lines, so only these are read.
    """
    try:
        with open(os.path.join(root, "proc/meminfo"), "rb", buffering=0) as file:
            _, is_found, rest = file.read(512).partition(b"MemAvailable:")
    except OSError:
        return None
    return 1024 * int(rest.split(maxsplit=1)[0]) if is_found else None


@cache
def _limits(root, process_id, total):
    """Return (limit, folder, file names) of the control groups with a limit below `total` bytes.

    Cached, because the search takes a third of the latency of predicting one sample.
    """
    limits = ((_limit(group, names), group, names) for group, names in _control_groups(root))
    return tuple(limit for limit in limits if limit[0] < total)


def _control_groups(root: str | Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """Yield (folder, file names) of the control groups of this process and of their ancestors.

    A line of ``/proc/self/cgroup`` is ``hierarchy:controllers:path``; version 2 of control groups
    has one hierarchy, whose list of controllers is empty.
    """
    try:
        lines = Path(root, "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = Path(root, "sys/fs/cgroup"), _V2_NAMES
        elif "memory" in controllers.split(","):
            top, names = Path(root, "sys/fs/cgroup/memory"), _V1_NAMES
        else:
            continue
        group = top / path.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield folder, names


def _limit(group, names):
    """Return the limit in bytes; infinity if there is none, or if the folder is not visible."""
    try:
        text = (group / names[0]).read_text().strip()
    except OSError:
        return math.inf
    return math.inf if text == "max" else int(text)


def _used(group, names):
    """Return the bytes in use, without the page cache that the kernel would free."""
    _, usage, inactive_file = names
    try:
        used = int((group / usage).read_text())
    except OSError:
        return 0
    return used - int(_read_fields(group / "memory.stat").get(inactive_file, 0))


def _read_fields(path):
    """Return the lines "name value" of a file as a dictionary, empty if there is no file."""
    try:
        return dict(line.split()[:2] for line in path.read_text().splitlines())
    except OSError:
        return {}
