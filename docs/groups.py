"""Parameters on the page of a class, in groups: a dozen and more in one list are hard to read.

Docstrings keep one list, which is what scikit-learn's HTML view reads. After numpydoc has made
reST of it, the list is cut into groups here.
"""

import re
from inspect import signature
from itertools import pairwise

GROUPS = {
    "Base estimators": ("estimators", "final_estimator"),
    "Size": ("n_hidden", "n_components", "image_shape", "patch_size", "pool"),
    "Hidden layer": (
        "radius", "kernel", "metric", "feature_weights", "scale", "weights", "bias", "contrast",
        "whitening", "threshold", "stride", "layer", "precision",
    ),
    "Selection of centres": ("selection", "selection_radius", "overlap", "shuffle"),
    "Readout": (
        "alpha", "readout", "learning_rate", "max_iter", "class_weight",
        "uncertainty", "forgetting_factor", "target_transform",
    ),
    "Computation": ("device", "max_memory", "random_state", "verbose"),
}  # fmt: skip
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
FIELD = re.compile(r"^:(\w+)")
ENTRY = re.compile(r"^    \*\*(\w+)\*\*")


def entries(lines):
    """Each parameter with the lines of its entry."""
    starts = [i for i, line in enumerate(lines) if ENTRY.match(line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield ENTRY.match(lines[start])[1], lines[start:end]


def grouped(lines):
    """The lines of a field of parameters, with a title before each group."""
    found = dict(entries(lines))
    for group in GROUPS:
        names = [name for name in found if GROUP_OF[name] == group]
        if names:
            yield from ("    .. rst-class:: group", "", f"    {group}", "")
            for name in names:
                yield from found[name]


def cut(app, what, name, obj, options, lines):
    """In place, after numpydoc; of estimators alone."""
    if what != "class" or "device" not in signature(obj).parameters:
        return
    fields = [i for i, line in enumerate(lines) if FIELD.match(line)] + [len(lines)]
    for start, end in pairwise(fields):
        if lines[start].startswith(":Parameters:"):
            lines[start + 2 : end] = list(grouped(lines[start + 2 : end]))
            return


def setup(app):
    app.connect("autodoc-process-docstring", cut, priority=900)
    return {"parallel_read_safe": True}
