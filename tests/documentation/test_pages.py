"""README and pages of the documentation: commands, code, results and links."""

import doctest
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
import threading
import tomllib
from http.client import HTTPConnection
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmark import benchmark
from sklearn_fsvc import RBFClassifier, make_tabular_pipeline
from sklearn_fsvc._src.export.c import header_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```\w*\n(.*?)^```", README, re.DOTALL | re.MULTILINE)[:2]
# Pages with doctests -> a lower bound of their number.
CODE = {
    "index.rst": 6,
    "start.rst": 20,
    "tables.rst": 35,
    "stacking.rst": 13,
    "streams.rst": 10,
    "regression.rst": 14,
    "evaluate.rst": 60,
    "explain.rst": 8,
    "faq.rst": 6,
    "probabilities.rst": 5,
    "time_series.rst": 15,
    "images.rst": 4,
    "sparse.rst": 7,
    "engines.rst": 5,
    "distillation.rst": 10,
    "microcontrollers.rst": 12,
    "reproducibility.rst": 8,
}
# The slowest pages: cross-validation, a stream of forty days, boosting, and Shapley values; and
# pages of which other pages and docstrings call the same methods. The code of index.rst is that of
# the README.
EXHAUSTIVE = (
    "evaluate.rst", "streams.rst", "stacking.rst", "explain.rst", "index.rst", "regression.rst",
    "reproducibility.rst", "time_series.rst",
)  # fmt: skip
LINKS = re.findall(r"\]\(([^)]+)\)", README)


def marked(page):
    marks = [pytest.mark.exhaustive] if page in EXHAUSTIVE else []
    return pytest.param(page, CODE[page], id=page, marks=marks)


@pytest.mark.parametrize(("page", "n_lines"), list(map(marked, CODE)))
def test_code_of_pages(page, n_lines, tmp_path, monkeypatch):
    """Run the code blocks in order, and compare their output."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    # Boosting would wait for cores that other tests use.
    with threadpool_limits(1 if page == "stacking.rst" else None):
        result = doctest.testfile(
            str(DOCS / page), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS
        )
    assert result.failed == 0
    assert result.attempted > n_lines


# Roles and directives of Sphinx and of its extensions, which docutils does not know.
OF_SPHINX = re.compile(r"Unknown (interpreted text role|directive type)")
PAGES = sorted([*DOCS.glob("*.rst"), *DOCS.glob("classes/*.rst")])


def markup_errors(text):
    """Return the warnings and errors of docutils for a page, except about names of Sphinx."""
    core = pytest.importorskip("docutils.core")
    settings = {"report_level": 2, "halt_level": 5, "warning_stream": io.StringIO()}
    document = core.publish_doctree(text, settings_overrides=settings)
    messages = document.findall(lambda node: node.tagname == "system_message" and node["level"] > 1)
    return [text for text in map(str, messages) if not OF_SPHINX.search(text)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_markup_is_valid(path):
    """The build of the site finds more errors, and takes minutes."""
    assert not markup_errors(path.read_text(encoding="utf-8"))


def test_malformed_tables_are_found():
    table = "=====  ==\na      b\n=====  ==\nwide text  c\n=====  ==\n"
    (error,) = markup_errors(table)
    assert "Malformed table" in error


def test_server_of_the_page(tmp_path, monkeypatch):
    """Run the code of the page for one request, on a free port, with missing values."""
    pd = pytest.importorskip("pandas")
    text = (DOCS / "serving.rst").read_text(encoding="utf-8")
    (code,) = re.findall(r"code-block:: python\n\n((?:    .*\n|\n)*?    HTTPServer.*\n)", text)
    table = pd.DataFrame({"a": [1.0, 2.0, None, 4.0] * 5, "b": ["x", "y", "x", "y"] * 5})
    model = make_tabular_pipeline(RBFClassifier(3, kernel="laplacian", alpha=1.0))
    model.fit(table, table["b"])
    monkeypatch.chdir(tmp_path)
    joblib.dump(model, "wine.joblib")
    code = (
        textwrap.dedent(code).replace("8000", "0").replace("HTTPServer((", "server = HTTPServer((")
    )
    namespace = {}
    exec(code.replace(").serve_forever()", ")"), namespace)
    with namespace["server"] as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        rows = table.head(3).to_json(orient="records").encode()
        client = HTTPConnection("localhost", server.server_port, timeout=20)
        client.request("POST", "/", rows)
        assert json.load(client.getresponse()) == ["x", "y", "x"]
        client.close()
        thread.join()


def test_size_of_the_header_of_the_page():
    """It is that of the model of the page, up to the constants of the kernel that is selected."""
    text = (DOCS / "microcontrollers.rst").read_text(encoding="utf-8")
    shown = int(re.search(r"digits.h: ([\d,]+) bytes", text).group(1).replace(",", ""))
    X, y = load_digits(return_X_y=True)
    X, _, y, _ = train_test_split(X.astype("uint8"), y, random_state=0)
    header = header_of(RBFClassifier(100, random_state=0).fit(X, y), "digits")
    assert shown == pytest.approx(header.n_bytes, rel=0.05)


def test_first_blocks_of_the_readme_are_commands():
    """The first installs and runs the demo, the second installs and runs the tests."""
    run, test = COMMANDS
    for command in COMMANDS:
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert run.endswith("&& .venv/bin/python -m sklearn_fsvc demo\n")
    assert test.endswith("&& .venv/bin/python -m pytest\n")


@pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("awk") is None, reason="the gate is for bash and awk"
)
@pytest.mark.parametrize("n", [1, 2])
def test_the_gate_runs_the_commands_of_the_readme(n):
    """It extracts them with a function of its own, and passes them to a shell."""
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f'bash -euo pipefail -c "$(readme_command {n})"' in gate
    (function,) = re.findall(r"^readme_command\(\) \{\n.*?^\}\n", gate, re.DOTALL | re.MULTILINE)
    read = subprocess.check_output(
        ["bash", "-c", f"{function}readme_command {n}"], cwd=ROOT, text=True
    )
    assert read == COMMANDS[n - 1]


def test_the_code_of_the_readme(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    promised = float(re.search(r"# (0\.\d+)\n", code).group(1))
    exec(code, {})
    # On other processors rounding may change the prediction of one of 450 samples.
    assert float(capsys.readouterr().out) == pytest.approx(promised, abs=0.0023)


def headings(path):
    """Return the anchors of headings, as GitHub generates them."""
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r"^(.+)\n(?:=+|-+|~+)$|^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", "".join(title).lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("link", LINKS)
def test_the_links_of_the_readme(link):
    """They point to files of the repository, so that they work offline in a clone."""
    file, _, anchor = link.partition("#")
    assert (ROOT / file).exists()
    assert not anchor or anchor in headings(ROOT / file)


def test_generated_blocks_are_up_to_date(capsys):
    """`python benchmarks/pages.py` writes them."""
    assert not benchmark("pages").main(True), capsys.readouterr().out


def test_outdated_results_are_replaced():
    filled = benchmark("pages").filled
    number = re.search(r"numbers: front-tables -->.*?(\d\d\.\d %)", README, re.DOTALL)
    wrong = README[: number.start(1)] + "12.3 %" + README[number.end(1) :]
    assert filled(wrong) == README != wrong


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", DOCS / "index.rst", ROOT / "paper/paper.md"], ids=lambda p: p.name
)
def test_results_on_front_pages_are_on_the_page_of_benchmarks(page):
    """Percentages, times and sizes are there with the commands that measured them."""
    number = re.compile(r"\d+(?:\.\d+)? (?:%|s|GiB)(?!\w)")
    promised = set(number.findall(page.read_text(encoding="utf-8")))
    assert len(promised) >= 4
    known = set(number.findall((DOCS / "benchmarks.rst").read_text(encoding="utf-8")))
    assert not promised - known


def test_the_readme_is_short():
    """Without its two generated tables."""
    text = re.sub(r"<!-- numbers.*?<!-- end -->", "", README, flags=re.DOTALL)
    assert len(text.split()) < 450
    assert len(LINKS) > 5


def test_each_term_of_the_glossary_has_a_definition():
    text = (DOCS / "glossary.rst").read_text(encoding="utf-8")
    terms = re.findall(r"^   (\w[\w -]*)$", text, re.MULTILINE)
    defined = re.findall(r"^   (\w[\w -]*)\n      \w", text, re.MULTILINE)
    assert terms == defined
    assert {"readout", "out-of-fold", "statistics"} < set(terms)


def test_broken_links_of_the_site_are_found(tmp_path):
    broken = runpy.run_path(str(DOCS / "links.py"))["broken"]
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here"></a><a href="b.html#there"></a><a href="b.html?q=1"></a>'
        '<a href="https://example.org/none"></a><img src="none.png"><a href="b.html#gone"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html#here"></a><a href="#no"></a>')
    assert {link for _, link in broken(tmp_path)} == {"none.png", "b.html#gone", "#no"}


def leaves(value):
    """Yield all numbers of a JSON value."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    elif isinstance(value, float | int):
        yield float(value)


# Page -> pattern of the titles of its benchmarks, or of result files of the paper.
SHOWN = {
    "benchmarks": "",
    "beyond": "device groups|cluster|Dask|dask",
    "images": "MNIST, 60000 . 10000 images$|^Patches|shifted",
    "paper": r"\.csv$",
    "microcontrollers": "headers",
    "weights": "weights",
}


def measured(pattern):
    """Return all results of matching benchmarks, in the units of the pages."""
    folder = ROOT / "benchmarks" / "results"
    stored = [json.loads(path.read_text()).items() for path in folder.glob("*.json")]
    numbers = [
        n
        for items in stored
        for title, of in items
        if re.search(pattern, title)
        for n in leaves(of)
    ]
    cell = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[-+]\d+)?(?![\w.])")
    for path in folder.glob("paper/*/*.csv"):
        if re.search(pattern, path.name):
            numbers += map(float, cell.findall(path.read_text()))
    numbers = np.array(numbers)
    ratios = 1 / numbers[numbers > 0]
    return np.sort(np.concatenate([numbers, ratios, *(numbers * s for s in (1e3, 1e-3, 100))]))


def is_measured(text, numbers):
    """Return whether a result rounds to this text."""
    value, half = float(text), 0.51 * 10.0 ** -len(text.partition(".")[2])
    low, high = np.searchsorted(numbers, [value - half, value + half])
    return low < high


def test_results_are_recognised():
    numbers = measured(SHOWN["images"])
    assert is_measured("98.72", numbers)  # PatchClassifier(60)
    assert not is_measured("98.37", numbers)


@pytest.mark.parametrize("page", SHOWN)
def test_numbers_in_tables_are_results(page):
    """Only numbers of three and more digits, which rarely match by chance."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    text = re.sub(r"\.\. numbers: .*?\.\. end", "", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if re.search(r"\S  +\S", line.strip())]
    number = re.compile(r"(?<![\w.,-])\d+\.\d+(?![\w.]*[A-Za-z(])")
    shown = [n for line in lines for n in number.findall(line) if len(n.strip("0.")) > 3]
    numbers = measured(SHOWN[page])
    assert len(shown) >= 3
    assert not [n for n in shown if not is_measured(n, numbers)]


def test_supported_versions():
    """They are those of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    section = (DOCS / "faq.rst").read_text(encoding="utf-8").partition("versions are supported?")[2]
    least = dict(each.split(">=") for each in project["dependencies"])
    for name in ("scikit-learn", "numpy", "scipy", "numba"):
        assert f"{name} {least[name]}" in section.lower()
    pythons = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: 3." in each]
    assert f"Python {pythons[0]} to {pythons[-1]}" in section
    assert project["requires-python"] == f">={pythons[0]}"
