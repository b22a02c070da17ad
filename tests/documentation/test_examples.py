"""Each example, as a single downloaded file, runs without warnings, plots a figure and prints."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

BLUE = (0, 0x72 / 255, 0xB2 / 255, 1)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))
# The slowest examples; the build of the site runs them, too.
EXHAUSTIVE = (
    "plot_01_first_model", "plot_02_table", "plot_03_hidden_size", "plot_04_feature_weights",
    "plot_05_images", "plot_06_probabilities", "plot_08_streams", "plot_09_larger_than_memory",
    "plot_10_gpu", "plot_11_dask",
)  # fmt: skip


def test_examples_are_numbered_consecutively():
    numbers = [int(path.name.split("_")[1]) for path in EXAMPLES]
    titles = [path.read_text(encoding="utf-8").splitlines()[1] for path in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert [int(re.match(r"(\d+)\. ", title)[1]) for title in titles] == numbers
    assert len(numbers) >= 11


def marked(path):
    marks = [pytest.mark.exhaustive] if path.stem in EXHAUSTIVE else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(map(marked, EXAMPLES)))
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_example(path, tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    plt.close("all")
    monkeypatch.chdir(tmp_path)
    copy = shutil.copy(path, tmp_path)
    # Other files of the examples and benchmarks cannot be imported.
    other_paths = [p for p in sys.path if Path(p).name not in ("examples", "benchmarks")]
    monkeypatch.setattr(sys, "path", other_paths)
    monkeypatch.delitem(sys.modules, "_data", raising=False)
    with threadpool_limits(1):  # boosting would wait for cores that other tests use
        runpy.run_path(copy, run_name="__main__")
    (number,) = plt.get_fignums()  # one figure, left open by plt.show
    (tmp_path / "shown").mkdir()
    plt.figure(number).savefig(tmp_path / "shown" / "picture.png")
    plt.close("all")
    assert (tmp_path / "shown" / "picture.png").stat().st_size > 8_000
    assert not list(tmp_path.glob("*.png"))  # the working directory is unchanged
    assert capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_causes_of_the_fourth_example_are_blue(monkeypatch):
    """The pipeline has prefixed the names of its features."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    (path,) = (path for path in EXAMPLES if path.stem.startswith("plot_04"))
    display = runpy.run_path(path)["display"]
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    is_blue = [bar.get_facecolor() == BLUE for bar in display.bars_]
    assert is_blue == ["noise" not in name for name in names]
    assert {True, False} == set(is_blue)
    assert all("heat" in name or "speed" in name for name in names[-3:])
    plt.close("all")
