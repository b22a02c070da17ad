"""What the README and the first page of the documentation promise: their code and their links."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
RAW = URLS["Source"].replace("github.com", "raw.githubusercontent.com") + "/main/"
LINKS = re.findall(r"\]\(([^)]+)\)", README)


def test_getting_started(tmp_path, monkeypatch):
    """The code blocks run in their order, and answer what the page says."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / "start.rst"), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > 20


def test_the_code_of_the_readme(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    promised = float(re.search(r"# (0\.\d+)\n", code).group(1))
    exec(code, {})
    # Two of 450 rows may be decided otherwise elsewhere, by rounding.
    assert float(capsys.readouterr().out) == pytest.approx(promised, abs=0.005)


def file_of(link):
    """The file of the repository behind a link to its site, its pictures or its pages."""
    if link.startswith(URLS["Documentation"]):
        page = link.removeprefix(URLS["Documentation"] + "/").removesuffix(".html")
        return ROOT / "examples" if page == "auto_examples/index" else DOCS / f"{page}.rst"
    for start in (RAW, URLS["Source"] + "/blob/main/"):
        if link.startswith(start):
            return ROOT / link.removeprefix(start)
    raise AssertionError(f"{link} is relative, which a package index cannot follow, or not ours")


@pytest.mark.parametrize("link", LINKS)
def test_the_links_of_the_readme(link):
    path = file_of(link)
    if path == ROOT / "CHANGELOG.md" and not path.exists():
        pytest.skip("a copy of the tests beside the wheel has no CHANGELOG.md")
    assert path.exists()


def test_the_readme_is_short():
    assert len(README.split()) < 450
    assert len(LINKS) > 5
