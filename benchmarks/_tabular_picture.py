"""Figure of training time against mean test error, from zero, with the Pareto front."""

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from _tabular_summary import MEDIAN, standing

ERRORS = {"classification": "error (1 - accuracy), %", "regression": "1 - R², %"}
OURS, OTHERS = "tab:red", "tab:blue"
# Offsets of a label from its point; the first one without overlap is used.
OFFSETS = (
    (7, 0, "left"), (-7, 0, "right"), (0, 9, "center"), (0, -9, "center"),
    (7, 10, "left"), (7, -10, "left"), (-7, 10, "right"), (-7, -10, "right"),
    (7, 20, "left"), (7, -20, "left"), (-7, 20, "right"), (-7, -20, "right"), (0, 26, "center"),
    (0, -26, "center"), (0, 40, "center"), (0, -40, "center"), (0, -54, "center"),
)  # fmt: skip
# Distance of a label, in points, from which a line connects it with its point.
_LINE_FROM = 15


def draw(results, path, title):
    """Plot a panel per task that has results of all methods."""
    tasks = {task: standing(group) for task, group in results.groupby("task")}
    tasks = {task: table for task, table in tasks.items() if len(table)}
    if not tasks:
        print(f"no figure: no dataset has results of all methods, so {path} is not written")
        return
    ours = set(results.name[results.ours])
    figure = Figure(figsize=(5 * len(tasks), 4.4), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, (task, table) in zip(panels, tasks.items(), strict=True):
        tuned = ", with tuning" if any(name.endswith(", tuned") for name in table.index) else ""
        axes.set(xlabel=f"time to fit{tuned}, s (median)", ylabel=f"{ERRORS[task]}, mean")
        axes.set_title(f"{task}, {title}")
        errors = 100 - table.score
        points = dict(zip(table.index, zip(table[MEDIAN], errors, strict=True), strict=True))
        _panel(figure, axes, points, ours)
    figure.savefig(path, dpi=130)


def front(points):
    """Return the names on the Pareto front of time and error, the fastest first."""
    names, least = [], float("inf")
    for name, (_, error) in sorted(points.items(), key=lambda item: item[1]):
        if error < least:
            names.append(name)
            least = error
    return names


def _panel(figure, axes, points, ours):
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25)
    axes.margins(0.14, 0.08)
    axes.set_ylim(0, 1.1 * max(error for _, error in points.values()))
    best = front(points)
    x, y = zip(*(points[name] for name in best), strict=True)
    axes.plot(
        x, y, drawstyle="steps-post", color="0.6", lw=4, alpha=0.4, zorder=1, label="Pareto front"
    )
    for colour, label in ((OURS, "this package"), (OTHERS, "others")):
        axes.plot([], [], "o", color=colour, label=label)
    for name, point in points.items():
        colour, tuned = OURS if name in ours else OTHERS, name.endswith(", tuned")
        face = "white" if tuned else colour
        axes.plot(*point, "o", color=colour, markerfacecolor=face, markersize=7, zorder=3)
        default = points.get(name.removesuffix(", tuned"))
        if tuned and default:
            axes.plot(*zip(default, point, strict=True), color=colour, lw=0.8, ls=":", zorder=2)
    axes.legend(loc="lower right")
    _label(figure, axes, points, best, ours)


def _label(figure, axes, points, best, ours):
    """Label the points, those of the front first and in bold."""
    figure.draw_without_rendering()
    occupied = [_box(axes.transData.transform(point), 5) for point in points.values()]
    occupied.append(axes.get_legend().get_window_extent())
    for name in sorted(points, key=lambda name: name not in best):
        for x, y, side in OFFSETS:
            text = axes.annotate(
                name, points[name], (x, y), textcoords="offset points", ha=side, va="center",
                fontsize=9, weight="bold" if name in best else "normal",
                color=OURS if name in ours else "black",
                path_effects=[withStroke(linewidth=2, foreground="white")],
                arrowprops={"arrowstyle": "-", "lw": 0.6} if abs(y) > _LINE_FROM else None,
            )  # fmt: skip
            extent = text.get_window_extent()
            is_inside = axes.bbox.containsx(extent.x0) and axes.bbox.containsx(extent.x1)
            if is_inside and not any(extent.overlaps(other) for other in occupied):
                break
            if (x, y, side) != OFFSETS[-1]:
                text.remove()
        occupied.append(extent)


def _box(centre, half):
    return Bbox([centre - half, centre + half])
