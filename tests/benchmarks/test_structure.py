"""The measurements of size and structure."""

from benchmark import benchmark

structure = benchmark("structure")

MODULE = '''"""One line."""
import os  # not a comment line

# A comment.
TEXT = """
# not a comment
"""


def f():
    """A docstring

    of three lines."""
'''


def test_lines_are_classified():
    assert structure.count_lines(MODULE) == {
        "code": 5, "docstrings": 4, "comments": 1, "blank": 3,
    }  # fmt: skip


def test_duplicate_class_names(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(
            f"class Same:\n    pass\nclass Only{name}:\n    pass\n"
        )
    paths = sorted(tmp_path.glob("*.py"))
    assert structure.duplicate_classes(paths) == {"Same": paths}


def test_patches_are_counted(tmp_path):
    (tmp_path / "tests").mkdir()
    text = (
        "def test(monkeypatch):\n    monkeypatch.setattr(a, 'b', 1)\n    monkeypatch.chdir('.')\n"
    )
    (tmp_path / "tests" / "test_a.py").write_text(text)
    assert structure.count_setattr(tmp_path) == 1


def test_calls_enter_functions_of_the_package():
    calls = structure.profile_calls()
    assert set(calls) == {"predict of one row", "RBF fit"}
    predict, fit = (
        {name.rpartition(".")[2] for names in files.values() for name in names}
        for files in calls.values()
    )
    assert "predict" in predict - fit
    assert "fit" in fit - predict
