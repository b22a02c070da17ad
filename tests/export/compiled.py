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


def compile_library(source, folder, *options):
    """Compile a C program and return it as a shared library."""
    if COMPILER is None:
        pytest.skip("no C compiler is installed")
    (folder / "m.c").write_text(source)
    command = [COMPILER, *STRICT, *options, "-shared", "-fPIC", "-o", "m.so", "m.c", "-lm"]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return ctypes.CDLL(str(folder / "m.so"))


def ctype(dtype):
    dtype = np.dtype(dtype)
    return {"f4": "float", "f8": "double", "u1": "uint8_t"}[dtype.str[1:]]


def predict_in_c(model, X, folder):
    """Return (scores, classes) of a classifier, or predictions of a regressor, by the C header."""
    (folder / "m.h").write_text(to_c(model, "m"))
    X = np.ascontiguousarray(X)
    if not is_classifier(model):
        predict = compile_library(REGRESSOR.substitute(row=ctype(X.dtype)), folder).predict
        y = np.full((len(X), *np.shape(model.predict(X[:1]))[1:]), np.nan)
        for row, output in zip(X, y.reshape(len(X), -1), strict=True):
            predict(row.ctypes.data_as(ctypes.c_void_p), output.ctypes.data_as(ctypes.c_void_p))
        return y
    expected = model.decision_function(X[:1])
    kind = model.classes_.dtype.kind
    label, result = {
        "i": ("int32_t", ctypes.c_int32),
        "b": ("int32_t", ctypes.c_int32),
        "f": ("double", ctypes.c_double),
    }.get(kind, ("const char *", ctypes.c_char_p))
    words = {"row": ctype(X.dtype), "score": ctype(expected.dtype), "label": label}
    library = compile_library(CLASSIFIER.substitute(words), folder)
    library.predict.restype = result
    scores = np.full((len(X), *expected.shape[1:]), np.nan, expected.dtype)
    classes = []
    for i, row in enumerate(X):
        pointer = row.ctypes.data_as(ctypes.c_void_p)
        library.scores(pointer, scores[i : i + 1].ctypes.data_as(ctypes.c_void_p))
        classes.append(library.predict(pointer))
    if kind in "OU":
        classes = [label.decode() for label in classes]
    return scores, np.array(classes)
