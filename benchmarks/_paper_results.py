"""The results of an experiment: as a text table, as CSV, as a figure."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import _paper_2017 as paper

FIELDS = (
    "experiment", "device", "layer", "method", "stage", "dtype", "M", "As", "N", "m", "n",
    "threads", "seconds", "t_syn_ps", "speed_up", "value", "error",
)  # fmt: skip
_TITLES = {
    "t_syn_ps": "t_syn, ps",
    "seconds": "time, s",
    "speed_up": "speed-up",
    "value": "share, % or what it says",
}
# Words in the name of a method, and what stands for it in the paper.
_PLATFORMS = (
    (("cuda", "kernel"), "GPU (GTX 750)"),
    (("blas", "mkl", "NumPy"), "MKL, float32"),
    (("jit",), "@jit"),
)


@dataclass
class Results:
    """Cells of one experiment.

    Attributes
    ----------
    name, title : str
    column : str
        The field that runs across the table and along the picture.
    values : tuple of str
        The fields shown; the picture shows the first.
    paper : str
        What the paper found, in a sentence.
    cells : list of dict
        Field -> value; `error` says why there is none.
    command : str
        What made them.
    """

    name: str
    title: str
    column: str
    values: tuple = ("t_syn_ps", "speed_up")
    paper: str = ""
    cells: list = field(default_factory=list)
    command: str = ""

    def add(self, **cell):
        self.cells.append({"experiment": self.name, **cell})

    def _label(self, cell):
        """Return the name of the table row or plot line of a cell."""
        names = (name for name in ("layer", "method") if name in cell and name != self.column)
        return " ".join(str(cell[name]) for name in names)

    def rows(self, value):
        """Return [(label of the row, {column: text})] in order of insertion."""
        rows = {}
        for cell in self.cells:
            shown = f"* {cell['error']}" if cell.get("error") else _text(cell.get(value))
            rows.setdefault(self._label(cell), {})[cell[self.column]] = shown
        return [(label, row) for label, row in rows.items() if any(row.values())]

    def text(self):
        """Return the results as a text table."""
        columns = list(dict.fromkeys(cell[self.column] for cell in self.cells))
        lines = [self.title, "=" * len(self.title)]
        for value in self.values:
            head = [f"{_TITLES[value]}  {self.column} =", *map(str, columns), "in 2017"]
            table = [
                [label, *(row.get(c, "") for c in columns), _published(label, value)]
                for label, row in self.rows(value)
            ]
            lines += [*_aligned([head, *table]), ""]
        if self.paper:
            lines += [f"The paper, 2017: {self.paper}", ""]
        return "\n".join(lines)

    def write_csv(self, folder):
        """Write one line per cell, after a comment with the command; return the path."""
        path = Path(folder) / f"{self.name}.csv"
        with path.open("w", newline="") as file:
            file.write(f"# {self.command}\n")
            used = [name for name in FIELDS if any(name in cell for cell in self.cells)]
            writer = csv.DictWriter(file, used, restval="", lineterminator="\n")
            writer.writeheader()
            for cell in self.cells:
                writer.writerow({k: _text(v, 6) for k, v in cell.items()})
        return path

    def draw(self, path):
        """Plot lines for numeric columns, else bars; return the path, None without values."""
        from matplotlib.figure import Figure

        value, series = self.values[0], {}
        for cell in self.cells:
            if isinstance(cell.get(value), int | float):
                series.setdefault(self._label(cell), []).append((cell[self.column], cell[value]))
        if not series:
            return None
        columns = dict.fromkeys(cell[self.column] for cell in self.cells)
        numeric = all(isinstance(column, int) for column in columns)
        height = 5.5 if numeric else 1.5 + len(series) * (0.15 + 0.12 * len(columns))
        figure = Figure(figsize=(8, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(self.title)
        if numeric:
            _draw_lines(axes, series)
            axes.set(xlabel=self.column, ylabel=_TITLES[value])
        else:
            _draw_bars(axes, series)
            axes.set_xlabel(_TITLES[value])
        figure.legend(loc="outside lower center", ncols=2, fontsize="small")
        figure.savefig(path, dpi=100)
        return path


def _draw_lines(axes, series):
    for label, points in series.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
    columns = sorted({x for points in series.values() for x, _ in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(columns, columns, rotation=45 if len(columns) > 8 else 0)
    axes.xaxis.minorticks_off()
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis, [y for points in series.values() for _, y in points])


def _draw_bars(axes, series):
    """Plot a group of bars per label, a colour per column."""
    places = list(dict.fromkeys(column for points in series.values() for column, _ in points))
    height = 0.8 / len(places)
    for i, place in enumerate(places):
        lengths = [dict(points).get(place, np.nan) for points in series.values()]
        at = np.arange(len(series)) + (i + 0.5) * height - 0.4
        axes.barh(at, lengths, height, label=place)
    axes.set_yticks(range(len(series)), series)
    axes.invert_yaxis()
    lengths = [length for points in series.values() for _, length in points]
    if max(lengths) > 20 * min(lengths):
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, lengths)


def _plain_ticks(axis, values):
    """Format ticks as plain numbers, several of them even within a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    ratio = max(values) / min(values)
    by_decade = LogLocator(10, subs=(1, 2, 5) if ratio < 200 else (1,))
    axis.set_major_locator(MaxNLocator(5) if ratio < 4 else by_decade)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.3)


def _published(label, value):
    """Return the best published value of a method, if there is one."""
    if value == "speed_up":
        return paper.SPEED_UP if "cuda" in label or "kernel" in label else ""
    if value != "t_syn_ps":
        return ""
    for words, what in _PLATFORMS:
        if any(word in label for word in words):
            return f"{paper.T_SYN[what]:,}"
    return ""


def _aligned(table):
    """Return aligned lines: the first column left, the others right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *others in table:
        cells = (f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _text(value, digits=4):
    if isinstance(value, float):
        return f"{value:.{digits}g}" if value < 10**digits else f"{value:.0f}"
    return "" if value is None else str(value)


def read_csv(path, **options):
    """Return the results of a file of `write_csv`; the options are not stored in it."""
    with Path(path).open(newline="") as file:
        command = file.readline().removeprefix("# ").strip()
        cells = [
            {name: _parsed(text) for name, text in row.items() if text != ""}
            for row in csv.DictReader(file)
        ]
    return Results(cells=cells, command=command, **options)


def _parsed(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
