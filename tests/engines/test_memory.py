"""How much memory is free, on machines and in control groups of files that are written here."""

import pytest

from sklearn_fsvc._src.engines import host
from sklearn_fsvc._src.engines.host import host_memory

GIB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """8 GiB, 6 of them free; a function that writes the files of a control group."""
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2 * 2**20}.get)
    for name in ("meminfo", "own_groups", "groups"):
        monkeypatch.setattr(host, f"_{name.upper()}", tmp_path / name)
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {6 * 2**20} kB\n")

    def write(lines, **groups):
        (tmp_path / "own_groups").write_text("".join(f"{line}\n" for line in lines))
        for path, files in groups.items():
            folder = tmp_path / "groups" / path
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (folder / name).write_text(f"{text}\n")

    host._limits.cache_clear()
    yield write
    host._limits.cache_clear()


def second(limit, used, files=0):
    return {
        "memory.max": limit,
        "memory.current": used,
        "memory.stat": f"anon 5\ninactive_file {files}\nactive_file 7",
    }


def first(limit, used, files=0):
    return {
        "memory.limit_in_bytes": limit,
        "memory.usage_in_bytes": used,
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {files}",
    }


V2, V1 = ["0::/job/step"], ["5:cpu,cpuacct:/other", "4:memory:/job/step", "0::/"]
NESTED = {
    "no limit": ({}, (6, 8)),
    "max": ({"job/step": second("max", GIB)}, (6, 8)),
    "more than the machine": ({"job": second(9 * GIB, GIB)}, (6, 8)),
    "the inner one": ({"job/step": second(4 * GIB, GIB), "job": second("max", GIB)}, (3, 4)),
    "the outer one": ({"job/step": second("max", 0), "job": second(4 * GIB, 3 * GIB)}, (1, 4)),
    "the root, as in a container": ({"": second(2 * GIB, GIB)}, (1, 2)),
    "least free is not least": (
        {"job/step": second(4 * GIB, 0), "job": second(5 * GIB, 4 * GIB)},
        (1, 4),
    ),
    "files are given up": ({"job/step": second(4 * GIB, 3 * GIB, files=2 * GIB)}, (3, 4)),
    "over the limit": ({"job/step": second(4 * GIB, 5 * GIB)}, (0, 4)),
    "of another": ({"other": second(GIB, 0)}, (6, 8)),
}


@pytest.mark.parametrize("name", NESTED)
def test_free_is_what_the_control_groups_leave(machine, name):
    groups, (free, total) = NESTED[name]
    machine(V2, **groups)
    assert host_memory() == (free * GIB, total * GIB)


def test_what_is_used_is_read_each_time(machine):
    for used in (1, 2):
        machine(V2, **{"job/step": second(4 * GIB, used * GIB)})
        assert host_memory() == ((4 - used) * GIB, 4 * GIB)


def test_the_first_version_of_control_groups(machine):
    unlimited = 2**63 - 4096
    machine(
        V1,
        **{
            "memory": first(unlimited, 7 * GIB),
            "memory/job": first(5 * GIB, 4 * GIB, files=GIB),
            "memory/job/step": first(unlimited, GIB),
            "job": second(GIB, GIB),
        },
    )
    assert host_memory() == (2 * GIB, 5 * GIB)


def test_a_system_that_tells_nothing(machine, tmp_path):
    (tmp_path / "meminfo").unlink()
    assert host_memory() == (4 * GIB, 8 * GIB)
