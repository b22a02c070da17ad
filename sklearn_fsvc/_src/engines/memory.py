"""How much memory the host has, and how much of it this process may still take."""

import math
import os
from functools import cache
from pathlib import Path

# Where the system does not say how much memory it has.
_ASSUMED_TOTAL = 4 * 2**30
# Where Linux tells of memory, and of the control groups that bound it.
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Limit, use, and what of the use is files that Linux gives up when memory is wanted: the names
# in the first version of control groups, and in the second.
_FIRST = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
_SECOND = "memory.max", "memory.current", "inactive_file"


def host_memory():
    """(free, total) bytes. Free is what may be taken without swapping, where known.

    A container or a batch job may have less than the machine: its control group has a limit, and
    so may each group around it. The least of what they leave is free.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = _ASSUMED_TOTAL
    available = _available()
    free = total // 2 if available is None else available
    for limit, group, names in _limits(os.getpid(), total):
        total, free = min(total, limit), min(free, max(0, limit - _used(group, names)))
    return free, total


def _available():
    """Bytes that may be taken without swapping; None where Linux does not say.

    Each `predict` asks for it. It is one of the first lines, so only those are read.
    """
    try:
        with open(_MEMINFO, "rb", buffering=0) as lines:
            _, found, rest = lines.read(512).partition(b"MemAvailable:")
    except OSError:
        return None
    return 1024 * int(rest.split(maxsplit=1)[0]) if found else None


@cache
def _limits(process, total):
    """(limit, folder, names of files) of its control groups that may take less than `total` bytes.

    They are looked for once, which takes a third of the time in which one row is answered.
    """
    limits = ((_limit(group, names), group, names) for group, names in _own_groups())
    return tuple(found for found in limits if found[0] < total)


def _own_groups():
    """(folder, names of files) of the control groups of this process, and of those around them."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, names = _GROUPS, _SECOND
        elif "memory" in controllers.split(","):
            root, names = _GROUPS / "memory", _FIRST
        else:
            continue
        own = root / path.strip("/")
        yield from ((g, names) for g in (own, *own.parents) if g.is_relative_to(root))


def _limit(group, names):
    """Bytes; infinity where there is no limit, or the folder is not to be seen from here."""
    try:
        text = (group / names[0]).read_text().strip()
    except OSError:
        return math.inf
    return math.inf if text == "max" else int(text)


def _used(group, names):
    """Bytes that are taken, without those of files that Linux gives up."""
    _, used, files = names
    try:
        used = int((group / used).read_text())
    except OSError:
        return 0
    return used - int(_fields(group / "memory.stat").get(files, 0))


def _fields(path):
    """Name -> value of a file of lines such as "name 5" or "name 5 kB"; {} where there is none."""
    try:
        return dict(line.split()[:2] for line in path.read_text().splitlines())
    except OSError:
        return {}
