"""Docstrings that are composed of shared entries."""

import inspect

import pytest

from sklearn_fsvc._src.utils.docstrings import fill_docstring, read_entries

ENTRIES = read_entries(
    """
    device : str
        Engine.

        Another paragraph.
    alphas_, loo_errors_ : ndarray
        Penalties and errors.
    bare_ : int
    """
)


def test_entries_are_named_after_their_first_name():
    assert list(ENTRIES) == ["device", "alphas_", "bare_"]
    assert ENTRIES["device"] == "device : str\n    Engine.\n\n    Another paragraph."
    assert ENTRIES["bare_"] == "bare_ : int"


def test_placeholders_are_replaced_by_indented_entries():
    @fill_docstring(ENTRIES, {"bare_": "bare_ : float", "names": "jit, blas"})
    class Example:
        """Title, where %(names)s are a phrase.

        Attributes
        ----------
        %(alphas_)s
        %(bare_)s
        """

    assert inspect.getdoc(Example).splitlines()[4:7] == [
        "alphas_, loo_errors_ : ndarray",
        "    Penalties and errors.",
        "bare_ : float",
    ]
    assert "where jit, blas are a phrase" in Example.__doc__


def test_an_unknown_placeholder_is_an_error():
    with pytest.raises(KeyError, match="unknown"):

        @fill_docstring(ENTRIES)
        class Example:
            """%(unknown)s"""


def test_a_class_without_a_docstring_stays_without_one():
    class Example:
        pass

    assert fill_docstring(ENTRIES)(Example) is Example
    assert Example.__doc__ is None
