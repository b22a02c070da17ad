"""Each example runs without a warning and saves pictures."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), "--quick", "--output", str(tmp_path)])
    runpy.run_path(str(path), run_name="__main__")
    plt.close("all")
    pictures = list(tmp_path.glob("*.png"))
    assert pictures
    assert min(p.stat().st_size for p in pictures) > 10_000
    assert capsys.readouterr().out
