"""Sphinx: `pip install '.[docs]' && sphinx-build docs docs/_build`."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from sklearn_fsvc import __version__

project = "sklearn_fsvc"
author = "the sklearn_fsvc developers"
release = __version__
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "benchmarks")]
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "mathml",
    "numpydoc",
    "groups",  # after numpydoc
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
    "myst_parser",  # for the change log
]
is_online = bool(os.environ.get("DOCS_ONLINE"))
# Links to the pages of others need a network: without one, a build would warn.
if is_online:
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    name: (f"https://{place}/", None)
    for name, place in {
        "python": "docs.python.org/3",
        "numpy": "numpy.org/doc/stable",
        "scipy": "docs.scipy.org/doc/scipy",
        "sklearn": "scikit-learn.org/stable",
        "joblib": "joblib.readthedocs.io/en/stable",
        "dask": "docs.dask.org/en/stable",
    }.items()
}
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
toc_object_entries_show_parents = "hide"
autosummary_generate = False  # The pages are there.
default_role = "obj"  # `RBFClassifier` is a link, and what is no name of ours is code.
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"{project} {release}"
html_logo = html_favicon = "_static/logo.svg"
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {"text": html_title, "alt_text": ""},
    "github_url": "https://github.com/sklearn-fsvc/sklearn-fsvc",
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "header_links_before_dropdown": 7,  # All sections: none of them in a menu.
}
if is_online:  # docs/publish writes the list of versions, for the site alone.
    is_release = os.environ.get("GITHUB_REF_TYPE") == "tag"
    html_theme_options |= {
        "switcher": {
            "json_url": "https://sklearn-fsvc.github.io/sklearn-fsvc/versions.json",
            "version_match": release.rpartition(".")[0] if is_release else "dev",
        },
        "check_switcher": False,  # there is no list before the first site is published
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }
html_sidebars = {page: [] for page in ("index", "start", "benchmarks")}
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp, .go"  # Prompts and answers.
numpydoc_show_class_members = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "auto_examples/used",  # which example uses what
    "doc_module": ("sklearn_fsvc",),
    "capture_repr": (),
}

if tags.has("draft"):  # noqa: F821, which Sphinx defines
    suppress_warnings = ["image.not_readable"]  # they are not drawn, to save time
else:
    # The pictures of how_it_works.rst, from fitted models.
    subprocess.run([sys.executable, str(Path(__file__).parent / "draw")], check=True)

    # The pictures of paper.rst, from the numbers that are kept.
    pictures = Path(__file__).parent / "pictures"
    pictures.mkdir(exist_ok=True)
    experiments = importlib.import_module("paper").EXPERIMENTS
    read_csv = importlib.import_module("_paper_results").read_csv
    for path in (Path(__file__).parent.parent / "benchmarks/results/paper").glob("*/*.csv"):
        results = read_csv(path, **experiments[path.stem].options)
        results.title += f" ({path.parent.name.replace('_', ', ')})"
        results.draw(pictures / f"{path.parent.name}_{path.stem}.png")
