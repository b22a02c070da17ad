"""C headers, compiled by the system's compiler and called from here."""

import ctypes
import shutil
import subprocess
from string import Template

import numpy as np
import pytest
from sklearn.base import is_classifier

from sklearn_fsvc.export.c import to_c

COMPILER = shutil.which("gcc") or shutil.which("cc")
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
CLASSIFIER = Template("""
#include "m.h"
void scores(const $row *x, $score *y) { m_scores(x, y); }
$label predict(const $row *x) { return m_predict(x); }
""")
REGRESSOR = Template("""
#include "m.h"
void predict(const $row *x, double *y) { m_predict(x, y); }
""")


def compiled(source, folder, *more):
    """The library of a program in C."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    (folder / "m.c").write_text(source)
    command = [COMPILER, *STRICT, *more, "-shared", "-fPIC", "-o", "m.so", "m.c", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "m.so"))


def ctype(dtype):
    dtype = np.dtype(dtype)
    return {"f4": "float", "f8": "double", "u1": "uint8_t"}[dtype.str[1:]]


def in_c(model, X, folder):
    """Scores and classes of the rows, or the answers of a regressor, as the header has them."""
    (folder / "m.h").write_text(to_c(model, "m"))
    X = np.ascontiguousarray(X)
    if not is_classifier(model):
        predict = compiled(REGRESSOR.substitute(row=ctype(X.dtype)), folder).predict
        y = np.full((len(X), *np.shape(model.predict(X[:1]))[1:]), np.nan)
        for row, answer in zip(X, y.reshape(len(X), -1), strict=True):
            predict(row.ctypes.data_as(ctypes.c_void_p), answer.ctypes.data_as(ctypes.c_void_p))
        return y
    expected = model.decision_function(X[:1])
    kind = model.classes_.dtype.kind
    label, result = {
        "i": ("int32_t", ctypes.c_int32),
        "b": ("int32_t", ctypes.c_int32),
        "f": ("double", ctypes.c_double),
    }.get(kind, ("const char *", ctypes.c_char_p))
    words = {"row": ctype(X.dtype), "score": ctype(expected.dtype), "label": label}
    library = compiled(CLASSIFIER.substitute(words), folder)
    library.predict.restype = result
    scores = np.full((len(X), *expected.shape[1:]), np.nan, expected.dtype)
    classes = []
    for i, row in enumerate(X):
        there = row.ctypes.data_as(ctypes.c_void_p)
        library.scores(there, scores[i : i + 1].ctypes.data_as(ctypes.c_void_p))
        classes.append(library.predict(there))
    if kind in "OU":
        classes = [label.decode() for label in classes]
    return scores, np.array(classes)
