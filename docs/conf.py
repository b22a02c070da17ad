"""Sphinx: `pip install '.[docs]' && sphinx-build docs docs/_build`."""

from sklearn_fsvc import __version__

project = "sklearn_fsvc"
author = "the sklearn_fsvc developers"
release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Fast shallow networks for scikit-learn"}
numpydoc_show_class_members = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "ignore_pattern": r"_data\.py",
}
