"""Every parameter has an entry of its own, which scikit-learn's HTML view shows and links to."""

import inspect
import re
from html import unescape
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.utils import estimator_html_repr

import sklearn_fsvc
from sklearn_fsvc import HiddenSizeSearchCV, TanhClassifier
from sklearn_fsvc.documentation import URL

PAGES = Path(__file__).parents[1] / "docs" / "classes"
CLASSES = [
    each for each in map(vars(sklearn_fsvc).get, sklearn_fsvc.__all__) if inspect.isclass(each)
]


def example(cls):
    return cls(TanhClassifier(), {}) if cls is HiddenSizeSearchCV else cls()


def names_of(cls):
    return set(example(cls).get_params(deep=False))


@pytest.mark.parametrize("cls", CLASSES)
def test_an_entry_for_each_parameter(cls):
    entries = NumpyDocString(inspect.getdoc(cls))["Parameters"]
    assert sorted(entry.name for entry in entries) == sorted(names_of(cls))
    for entry in entries:
        assert entry.type, entry.name
        text = " ".join(entry.desc)
        assert len(text.split()) > 3, entry.name
        assert not text.startswith("As for"), f"{entry.name}: say what it is, in one sentence"


@pytest.mark.parametrize("cls", CLASSES)
def test_html_has_a_link_and_a_tooltip_for_each_parameter(cls):
    """Of scikit-learn 1.9; 1.8 shows the parameters alone."""
    html = unescape(estimator_html_repr(example(cls)))
    page = f"{URL}/classes/{cls.__name__}.html"
    assert f'href="{page}"' in html
    links = set(re.findall(rf'href="{re.escape(page)}#:~:text=(\w+),', html))
    if links or hasattr(sklearn_fsvc.TanhClassifier, "set_callbacks"):
        assert links == names_of(cls)
        assert html.count('class="param-doc-description"') >= len(links)


@pytest.mark.parametrize("cls", CLASSES)
def test_there_is_a_page_for_each_class(cls):
    """To which the links go."""
    page = (PAGES / f"{cls.__name__}.rst").read_text()
    assert f".. autoclass:: {cls.__name__}" in page


def test_the_citation_is_of_this_version():
    citation = (PAGES.parents[1] / "CITATION.cff").read_text()
    assert f"\nversion: {sklearn_fsvc.__version__}\n" in citation
