"""The demo as in a container: a user without a home, and packages that it may not write."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_fsvc

pytestmark = pytest.mark.slow
# A user that has a number only, and no home; modes stop it, also where root runs the tests.
AS_NOBODY = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]


@pytest.fixture
def site(tmp_path):
    """A folder with a copy of the package, none of which can be written."""
    site = tmp_path / "site"
    package = Path(sklearn_fsvc.__file__).parent
    shutil.copytree(
        package, site / package.name, ignore=shutil.ignore_patterns("__pycache__")
    )  # fmt: skip
    everything = [site, *site.rglob("*")]
    for path in everything:
        path.chmod(path.stat().st_mode & ~0o222)
    yield site
    for path in everything:  # or nobody could delete it
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def run(site, *arguments):
    """Run Python as nobody, without the variables of whoever runs the tests."""
    return subprocess.run(
        [*AS_NOBODY, sys.executable, *arguments], cwd=site, capture_output=True, text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)},
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare, of util-linux")
def test_the_demo(site):
    tried = run(site, "-c", "import os; print(os.path.expanduser('~')); open('new', 'w')")
    if not tried.stdout:
        pytest.skip(f"there are no other users here: {tried.stderr}")
    assert tried.stdout == "~\n"
    assert "PermissionError" in tried.stderr
    picture = site.parent / "digits.png"
    done = run(site, "-m", "sklearn_fsvc", "demo", "--output", picture)
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 5000
    assert done.stderr.count("cannot be kept on disk") == 1, done.stderr
    assert "Set NUMBA_CACHE_DIR" in done.stderr
