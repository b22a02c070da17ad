"""Each example, downloaded alone, runs without a warning and saves pictures."""

import runpy
import shutil
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
    alone = shutil.copy(path, tmp_path)
    # No file beside it, of the examples or of the benchmarks, can be imported.
    elsewhere = [p for p in sys.path if Path(p).name not in ("examples", "benchmarks")]
    monkeypatch.setattr(sys, "path", elsewhere)
    monkeypatch.delitem(sys.modules, "_data", raising=False)
    monkeypatch.setattr(sys, "argv", [alone, "--quick"])
    runpy.run_path(alone, run_name="__main__")
    plt.close("all")
    pictures = list(tmp_path.glob("*.png"))
    assert pictures
    assert min(p.stat().st_size for p in pictures) > 10_000
    assert capsys.readouterr().out
