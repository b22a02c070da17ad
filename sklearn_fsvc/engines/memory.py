"""How much memory the host has, and how much of it this process may still take."""

import os
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
    try:
        free = 1024 * int(_fields(_MEMINFO)["MemAvailable:"])
    except (OSError, KeyError):
        free = total // 2
    for limit, used in _control_groups(total):
        total, free = min(total, limit), min(free, max(0, limit - used))
    return free, total


def _control_groups(total):
    """(limit, used) of the groups of this process that may take less than `total` bytes."""
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
        for group in (own, *own.parents):
            if group.is_relative_to(root):
                yield from _limit_and_use(group, names, total)


def _limit_and_use(group, names, total):
    """One pair, or none where there is no limit, or the folder is not to be seen from here."""
    limit_name, used_name, files_name = names
    try:
        limit = (group / limit_name).read_text().strip()
        if limit != "max" and int(limit) < total:
            used = int((group / used_name).read_text())
            files = int(_fields(group / "memory.stat").get(files_name, 0))
            yield int(limit), used - files
    except OSError:
        return


def _fields(path):
    """Name -> value of a file of lines such as "name 5" or "name 5 kB"."""
    return dict(line.split()[:2] for line in path.read_text().splitlines())
