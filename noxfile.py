#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""Tasks, each in an environment of its own: `nox --list` describes them, `nox` runs two of them."""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
PROJECT = nox.project.load_toml("pyproject.toml")
STYLE = nox.project.dependency_groups(PROJECT, "style")


@nox.session
def style(session):
    """Run ruff, codespell and mypy."""
    session.install(*STYLE)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("codespell")
    session.run("mypy")


@nox.session
def tests(session):
    """Run the tests; arguments after `--` are those of pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(default=False)
def coverage(session):
    """Run the tests and measure their coverage, which must be 95 % if all of them run."""
    session.install("-e", ".[test]", "pytest-cov")
    session.run("pytest", "--cov", *(session.posargs or ("--cov-fail-under=95",)))


@nox.session(default=False)
def docs(session):
    """Build the site in docs/_build; `-- -D plot_gallery=0` leaves the examples out."""
    session.install("-e", ".[docs]")
    build = ("sphinx-build", "-W", "--keep-going", "docs", "docs/_build")
    session.run(*build, *session.posargs)
    session.run("python", "docs/links.py", "docs/_build")


@nox.session(default=False)
def speed(session):
    """Measure benchmarks/speed; `-- compare` etc. are commands of asv."""
    session.install("-e", ".", "asv")
    session.run("asv", *(session.posargs or ("run", "--python=same", "--quick")))


@nox.session(default=False, venv_backend="none")
def gate(session):
    """Run `.ci/run`, as every change must pass it."""
    session.run(".ci/run", external=True)


if __name__ == "__main__":
    nox.main()
