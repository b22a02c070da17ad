"""Each example, downloaded alone, runs without a warning, draws a picture and says something."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


def test_they_are_numbered_in_the_order_of_learning():
    numbers = [int(path.name.split("_")[1]) for path in EXAMPLES]
    titles = [path.read_text(encoding="utf-8").splitlines()[1] for path in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert [int(re.match(r"(\d+)\. ", title)[1]) for title in titles] == numbers
    assert len(numbers) >= 11


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    plt.close("all")
    monkeypatch.chdir(tmp_path)
    alone = shutil.copy(path, tmp_path)
    # No file beside it, of the examples or of the benchmarks, can be imported.
    elsewhere = [p for p in sys.path if Path(p).name not in ("examples", "benchmarks")]
    monkeypatch.setattr(sys, "path", elsewhere)
    monkeypatch.delitem(sys.modules, "_data", raising=False)
    monkeypatch.setattr(sys, "argv", [alone])
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(map(plt.figure, plt.get_fignums())))
    with threadpool_limits(1):  # other tests run beside it: boosting would wait for their cores
        runpy.run_path(alone, run_name="__main__")
    assert len(shown) == 1  # one lesson, one picture
    (tmp_path / "shown").mkdir()
    shown[0].savefig(tmp_path / "shown" / "picture.png")
    plt.close("all")
    assert (tmp_path / "shown" / "picture.png").stat().st_size > 8_000
    assert not list(tmp_path.glob("*.png"))  # nothing is left where it was called
    assert capsys.readouterr().out
