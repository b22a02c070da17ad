"""What the README and the first page of the documentation promise: their code and their links."""

import doctest
import json
import re
import runpy
import textwrap
import threading
import tomllib
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import joblib
import pytest

from sklearn_fsvc import RBFClassifier, make_tabular_pipeline

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
RAW = URLS["Source"].replace("github.com", "raw.githubusercontent.com") + "/main/"
LINKS = re.findall(r"\]\(([^)]+)\)", README)


@pytest.mark.parametrize(("page", "n_blocks"), [("start.rst", 20), ("faq.rst", 6)])
def test_code_of_pages(page, n_blocks, tmp_path, monkeypatch):
    """The code blocks run in their order, and answer what the page says."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / page), module_relative=False, encoding="utf-8")
    assert result.failed == 0
    assert result.attempted > n_blocks


def test_the_server_answers(tmp_path, monkeypatch):
    """The page's own code, but for the port and for ever, answers rows with a missing value."""
    pd = pytest.importorskip("pandas")
    text = (DOCS / "serving.rst").read_text(encoding="utf-8")
    (code,) = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)*?    HTTPServer.*\n)", text)
    table = pd.DataFrame({"a": [1.0, 2.0, None, 4.0] * 5, "b": ["x", "y", "x", "y"] * 5})
    model = make_tabular_pipeline(RBFClassifier(random_state=0)).fit(table, table["b"])
    monkeypatch.chdir(tmp_path)
    joblib.dump(model, "wine.joblib")
    servers = []
    monkeypatch.setattr(HTTPServer, "serve_forever", lambda self: servers.append(self))
    monkeypatch.setattr(BaseHTTPRequestHandler, "log_message", lambda *args: None)
    exec(textwrap.dedent(code).replace("8000", "0"), {})
    with servers[0] as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        rows = table.head(3).to_json(orient="records").encode()
        client = HTTPConnection("localhost", server.server_port, timeout=20)
        client.request("POST", "/", rows)
        assert json.load(client.getresponse()) == ["x", "y", "x"]
        client.close()
        thread.join()


def test_the_code_of_the_readme(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    promised = float(re.search(r"# (0\.\d+)\n", code).group(1))
    exec(code, {})
    # Two of 450 rows may be decided otherwise elsewhere, by rounding.
    assert float(capsys.readouterr().out) == pytest.approx(promised, abs=0.005)


def file_of(link):
    """The file of the repository behind a link to its site, its pictures or its pages."""
    if link.startswith(URLS["Documentation"]):
        page = link.removeprefix(URLS["Documentation"] + "/").partition("#")[0]
        page = page.removesuffix(".html")
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


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.rst"], ids=lambda p: p.name)
def test_numbers_of_the_front_are_on_the_page_of_benchmarks(page):
    """A percentage, a time or a size that is promised stands there, beside its command."""
    number = re.compile(r"\d+(?:\.\d+)? (?:%|s|GiB)(?!\w)")
    promised = set(number.findall(page.read_text(encoding="utf-8")))
    assert len(promised) >= 4
    known = set(number.findall((DOCS / "benchmarks.rst").read_text(encoding="utf-8")))
    assert not promised - known


def test_the_readme_is_short():
    assert len(README.split()) < 450
    assert len(LINKS) > 5


def test_the_glossary_explains_ten_words():
    text = (DOCS / "glossary.rst").read_text(encoding="utf-8")
    assert len(re.findall(r"^   \w[\w ]*$", text, re.MULTILINE)) == 10


def test_links_of_the_site_that_lead_nowhere(tmp_path):
    broken = runpy.run_path(str(DOCS / "links.py"))["broken"]
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html#there"></a><a href="b.html?q=1"></a>'
        '<a href="https://example.org/none"></a><img src="none.png"><a href="b.html#gone"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html#here"></a><a href="#no"></a>')
    found = set(broken(tmp_path))
    assert {link for where, link in found if where.name != "README.md"} == {
        "none.png", "b.html#gone", "#no",
    }  # fmt: skip
    # None of the pages to which the README leads is there.
    assert {link for where, link in found if where.name == "README.md"} == {
        link.removeprefix(URLS["Documentation"] + "/")
        for link in LINKS if link.startswith(URLS["Documentation"])
    }  # fmt: skip
