"""How much memory is free, for machines and control groups whose files are written here."""

import pytest

from sklearn_fsvc._src.engines import host_memory

GIB = 2**30


class Machine:
    """8 GiB of memory of which 6 are free, and the files in which Linux reports it."""

    def __init__(self, root):
        self.root = root
        (root / "proc" / "self").mkdir(parents=True)
        self.meminfo = root / "proc" / "meminfo"
        self.meminfo.write_text(f"MemTotal: 1 kB\nMemAvailable:   {6 * 2**20} kB\n")

    def write_groups(self, lines, **groups):
        """Write the control groups of the process, and files: path -> {name: text}."""
        path = self.root / "proc" / "self" / "cgroup"
        path.write_text("".join(f"{line}\n" for line in lines))
        for path, texts in groups.items():
            folder = self.root / "sys" / "fs" / "cgroup" / path
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(f"{text}\n")

    def memory(self):
        return host_memory.read_host_memory(str(self.root))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2 * 2**20}.get)
    return Machine(tmp_path)


def version_2(limit, used, files=0):
    """Files of a control group of version 2; `files` are bytes of page cache."""
    return {
        "memory.max": limit,
        "memory.current": used,
        "memory.stat": f"anon 5\ninactive_file {files}\nactive_file 7",
    }


def version_1(limit, used, files=0):
    return {
        "memory.limit_in_bytes": limit,
        "memory.usage_in_bytes": used,
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {files}",
    }


V2, V1 = ["0::/job/step"], ["5:cpu,cpuacct:/other", "4:memory:/job/step", "0::/"]
NESTED = {
    "no limit": ({}, (6, 8)),
    "max": ({"job/step": version_2("max", GIB)}, (6, 8)),
    "more than the machine": ({"job": version_2(9 * GIB, GIB)}, (6, 8)),
    "of the group": ({"job/step": version_2(4 * GIB, GIB), "job": version_2("max", GIB)}, (3, 4)),
    "of the parent": (
        {"job/step": version_2("max", 0), "job": version_2(4 * GIB, 3 * GIB)},
        (1, 4),
    ),
    "of the root, as in a container": ({"": version_2(2 * GIB, GIB)}, (1, 2)),
    "smallest remainder is not of the smallest limit": (
        {"job/step": version_2(4 * GIB, 0), "job": version_2(5 * GIB, 4 * GIB)},
        (1, 4),
    ),
    "page cache is free": ({"job/step": version_2(4 * GIB, 3 * GIB, files=2 * GIB)}, (3, 4)),
    "over the limit": ({"job/step": version_2(4 * GIB, 5 * GIB)}, (0, 4)),
    "of another group": ({"other": version_2(GIB, 0)}, (6, 8)),
}


@pytest.mark.parametrize("name", NESTED)
def test_free_memory_is_the_smallest_remainder_of_all_control_groups(machine, name):
    groups, (free, total) = NESTED[name]
    machine.write_groups(V2, **groups)
    assert machine.memory() == (free * GIB, total * GIB)


def test_used_memory_is_read_at_each_call(machine):
    for used in (1, 2):
        machine.write_groups(V2, **{"job/step": version_2(4 * GIB, used * GIB)})
        assert machine.memory() == ((4 - used) * GIB, 4 * GIB)


def test_control_groups_of_version_1(machine):
    unlimited = 2**63 - 4096
    machine.write_groups(
        V1,
        **{
            "memory": version_1(unlimited, 7 * GIB),
            "memory/job": version_1(5 * GIB, 4 * GIB, files=GIB),
            "memory/job/step": version_1(unlimited, GIB),
            "job": version_2(GIB, GIB),
        },
    )
    assert machine.memory() == (2 * GIB, 5 * GIB)


def test_without_meminfo_half_of_the_memory_is_assumed_free(machine):
    machine.meminfo.unlink()
    assert machine.memory() == (4 * GIB, 8 * GIB)


def test_this_machine_has_memory():
    free, total = host_memory.host_memory()
    assert 0 < free <= total


def test_the_memory_is_read_again_after_20_ms(monkeypatch):
    time, reads = [0.0], iter([(1, 10), (2, 10)])
    monkeypatch.setattr(host_memory, "monotonic", lambda: 1e6 + time[0])
    monkeypatch.setattr(host_memory, "read_host_memory", lambda: next(reads))
    assert host_memory.host_memory() == host_memory.host_memory() == (1, 10)
    time[0] = 0.021
    assert host_memory.host_memory() == (2, 10)
    host_memory._host_memory_of.cache_clear()
