"""Docstrings and pages of public classes: every parameter and method has an entry."""

import ast
import inspect
import re
import runpy
import tomllib
from html import unescape
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.docscrape_sphinx import SphinxDocString
from sklearn.utils import estimator_html_repr

import sklearn_fsvc
from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier, inspection

PAGES = Path(__file__).parents[2] / "docs" / "classes"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
URL = PROJECT["urls"]["Documentation"]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))
CLASSES = [
    each for each in map(vars(sklearn_fsvc).get, sklearn_fsvc.__all__) if inspect.isclass(each)
]


def example(cls):
    return cls(TanhClassifier(), {}) if cls is HiddenSizeSearchCV else cls()


def names_of(cls):
    return set(example(cls).get_params(deep=False))


@pytest.mark.parametrize("cls", CLASSES)
def test_every_parameter_has_an_entry(cls):
    entries = NumpyDocString(inspect.getdoc(cls))["Parameters"]
    assert sorted(entry.name for entry in entries) == sorted(names_of(cls))
    for entry in entries:
        assert entry.type, entry.name
        text = " ".join(entry.desc)
        assert len(text.split()) > 3, entry.name
        assert not text.startswith("As for"), (
            f"{entry.name}: describe it instead of referring to another class"
        )


@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_are_in_the_order_of_the_signature(cls):
    names = [entry.name for entry in NumpyDocString(inspect.getdoc(cls))["Parameters"]]
    assert names == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not HiddenSizeSearchCV])
def test_defaults_are_those_of_the_signature(cls):
    parameters = inspect.signature(cls).parameters
    for entry in NumpyDocString(inspect.getdoc(cls))["Parameters"]:
        default = parameters[entry.name].default
        if default is not inspect.Parameter.empty:
            documented = entry.type.rpartition("default=")[2]
            assert ast.literal_eval(documented) == default, entry.name


@pytest.mark.parametrize("cls", CLASSES)
def test_html_has_a_link_and_a_tooltip_for_each_parameter(cls):
    """Since scikit-learn 1.9; 1.8 shows the parameters only."""
    html = unescape(estimator_html_repr(example(cls)))
    page = f"{URL}/classes/{cls.__name__}.html"
    assert f'href="{page}"' in html
    links = set(re.findall(rf'href="{re.escape(page)}#:~:text=(\w+),', html))
    if links or hasattr(sklearn_fsvc.TanhClassifier, "set_callbacks"):
        assert links == names_of(cls)
        assert html.count('class="param-doc-description"') >= len(links)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_has_a_page(cls):
    """Which is the target of the links."""
    page = (PAGES / f"{cls.__name__}.rst").read_text()
    assert f".. autoclass:: {cls.__name__}" in page


@pytest.mark.parametrize("cls", CLASSES)
def test_page_lists_the_methods_of_this_package(cls):
    """Methods of scikit-learn, such as get_params, are in its documentation."""
    page = (PAGES / f"{cls.__name__}.rst").read_text()
    listed = set(re.findall(r"automethod:: (\w+)", page))
    summary = re.findall(rf"^      ~{cls.__name__}\.(\w+)$", page, re.MULTILINE)
    assert not summary or set(summary) == listed
    for name, method in inspect.getmembers(cls, callable):
        ours = (getattr(method, "__module__", None) or "").startswith("sklearn_fsvc")
        assert name.startswith("_") or not ours or name in listed, name


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls is not HiddenSizeSearchCV])
def test_every_parameter_is_in_one_group_of_the_page(cls):
    """Exactly once, with its description."""
    names = runpy.run_path(str(PAGES.parent / "groups.py"))
    lines = str(SphinxDocString(inspect.getdoc(cls))).splitlines()
    names["cut"](None, "class", cls.__name__, cls, None, lines)
    shown = [match[1] for match in map(names["ENTRY"].match, lines) if match]
    of_parameters = [name for name in shown if not name.endswith("_")]
    assert sorted(of_parameters) == sorted(names_of(cls))
    titles = [line.strip() for line in lines if line.strip() in names["GROUPS"]]
    assert titles == [title for title in names["GROUPS"] if title in titles]
    assert len(titles) >= 2


def imported(paths):
    """Yield the imported names of this package, such as "inspection.HiddenSizeDisplay"."""
    pattern = re.compile(r"^\W*from sklearn_fsvc(\.[\w.]+)? import ([\w, ]+)", re.MULTILINE)
    for path in paths:
        for module, names in pattern.findall(path.read_text(encoding="utf-8")):
            yield from (f"{module}.{name.strip()}".lstrip(".") for name in names.split(","))


def test_every_public_name_has_an_entry():
    """All exported names, and all that pages and examples import."""
    entries = " ".join(page.read_text() for page in PAGES.glob("*.rst"))
    documented = set(re.findall(r"(?:class|function|data):: ([\w.]+)", entries))
    documented = {name.rpartition(".")[2] for name in documented}
    names = {*sklearn_fsvc.__all__, *inspection.__all__, *imported(PAGES.parent.glob("*.rst"))}
    names |= set(imported(EXAMPLES))
    assert not {name for name in names if name.rpartition(".")[2] not in documented}


def test_pages_list_their_examples():
    for name in set(imported(EXAMPLES)):
        page = (PAGES / f"{name.rpartition('.')[2]}.rst").read_text()
        assert f".. minigallery:: sklearn_fsvc.{name}\n" in page, name


def test_citation_has_the_current_version():
    citation = (PAGES.parents[1] / "CITATION.cff").read_text()
    assert f"\nversion: {sklearn_fsvc.__version__}\n" in citation


def test_the_recipe_has_the_requirements_of_the_project():
    """Of conda-forge: the same versions as in pyproject.toml."""
    recipe = (PAGES.parents[1] / "conda" / "recipe.yaml").read_text()
    (run,) = re.findall(r"^  run:\n((?:    - .*\n)+)", recipe, re.MULTILINE)
    required = [each.strip("- ").replace(" ", "") for each in run.splitlines()]
    assert required[1:] == PROJECT["dependencies"]
    assert f'\n  version: "{sklearn_fsvc.__version__}"\n' in recipe
