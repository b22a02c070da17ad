"""Measure the size and structure of a checkout: lines, duplicate class names, functions entered.

    python benchmarks/structure.py                 # of this checkout
    python benchmarks/structure.py ../other --names

The functions of the package that a call enters are counted in a process of its own, by a profile
function, on ``device="jit"`` and after a first call, so that imports and compilation do not count.
"""

import argparse
import ast
import io
import json
import os
import re
import subprocess
import sys
import threading
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

PACKAGE = "sklearn_fsvc"
# Compiled kernels: PTX of single programs, and archives of cubin files.
GENERATED = (".ptx", ".cubin", ".zip")
# Tokens that do not make a line a line of code.
LAYOUT = {
    tokenize.ENCODING, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_lines(text):
    """Return a Counter of the lines that are code, docstring, comment or blank."""
    tree, docstring = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code, comment = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment.add(token.start[0])
        elif token.type not in LAYOUT:
            # A string may have several lines, some of them empty.
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstring
    comment -= code | docstring
    blank = len(text.splitlines()) - len(code) - len(docstring) - len(comment)
    return Counter(
        code=len(code), docstrings=len(docstring), comments=len(comment), blank=blank
    )  # fmt: skip


def duplicate_classes(files):
    """Return the names of classes that are defined more than once, each with its files."""
    defined = defaultdict(list)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                defined[node.name].append(path)
    return {name: paths for name, paths in sorted(defined.items()) if len(paths) > 1}


def generated_bytes(root):
    """Return the bytes of the compiled kernels that git tracks."""
    command = ["git", "-C", str(root), "ls-files", "-z"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    paths = [root / name for name in names if name.endswith(GENERATED)]
    return sum(path.stat().st_size for path in paths if path.exists())


def count_setattr(root):
    """Return how often tests call ``monkeypatch.setattr``."""
    pattern = re.compile(r"\bmonkeypatch\.setattr\(")
    files = (root / "tests").rglob("*.py")
    return sum(len(pattern.findall(path.read_text("utf-8"))) for path in files)


def entered(call):
    """Return the named functions of the package that a call enters, as {file: [names]}."""
    codes = set()

    def profile(frame, event, arg):
        if event == "call":
            codes.add(frame.f_code)

    # Threads that exist already can be profiled since Python 3.12 only.
    profile_threads = getattr(threading, "setprofile_all_threads", threading.setprofile)
    profile_threads(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        profile_threads(None)
    files = defaultdict(set)
    for code in codes:
        _, in_package, name = code.co_filename.replace(os.sep, "/").rpartition(f"/{PACKAGE}/")
        # Expressions, such as lambda and generators, belong to the function around them.
        if in_package and not code.co_name.startswith("<"):
            files[name].add(code.co_qualname)
    return {name: sorted(functions) for name, functions in sorted(files.items())}


def profile_calls():
    """Return what a one-row predict and an RBF fit enter; of the package on ``sys.path``."""
    import numpy as np

    from sklearn_fsvc import RBFClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    # Everything is given, so that nothing is searched.
    model = RBFClassifier(
        n_hidden=50, radius=2.0, selection_radius=1.0, alpha=1.0, feature_weights=None,
        kernel="triangular", precision="float", random_state=0, device="jit",
    )  # fmt: skip
    model.fit(X, y).predict(X[:1])
    return {
        "predict of one row": entered(lambda: model.predict(X[:1])),
        "RBF fit": entered(lambda: model.fit(X, y)),
    }


def calls_of(root):
    """Run `profile_calls` with the package of another checkout."""
    command = [sys.executable, str(Path(__file__).resolve()), "--calls"]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    # In a folder without packages: nothing but PYTHONPATH decides which one is imported.
    where = Path(__file__).resolve().parent
    done = subprocess.run(command, env=env, cwd=where, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def report(root, with_names=False):
    """Print the measurements of a checkout."""
    files = sorted((root / PACKAGE).rglob("*.py"))
    lines = Counter()
    for path in files:
        lines += count_lines(path.read_text("utf-8"))
    total = lines.total()
    print(f"Python files of the package      {len(files):8,}")
    print(f"lines                            {total:8,}")
    for kind in ("code", "docstrings", "comments", "blank"):
        print(f"  {kind:31}{lines[kind]:8,}  {lines[kind] / total:6.1%}")
    duplicates = duplicate_classes(files)
    print(f"class names defined twice        {len(duplicates):8,}")
    for name, paths in duplicates.items():
        where = ", ".join(str(path.relative_to(root / PACKAGE)) for path in paths)
        print(f"  {name}: {where}")
    print(f"tracked bytes of generated files {generated_bytes(root):8,}")
    print(f"monkeypatch.setattr in tests     {count_setattr(root):8,}", flush=True)
    for name, modules in calls_of(root).items():
        n_functions = sum(map(len, modules.values()))
        print(f"{name + ' enters':33}{n_functions:8,} functions in {len(modules)} files")
        if with_names:
            for module, functions in modules.items():
                print(f"  {module}: {', '.join(functions)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    own = Path(__file__).resolve().parents[1]
    parser.add_argument("path", nargs="?", type=Path, default=own, help="a checkout (this one)")
    parser.add_argument("--names", action="store_true", help="also print the functions entered")
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.calls:
        json.dump(profile_calls(), sys.stdout)
    else:
        report(args.path.resolve(), args.names)


if __name__ == "__main__":
    main()
