"""python -m sklearn_fsvc export"""

import re

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_fsvc import RBFClassifier, TanhProjector
from sklearn_fsvc.__main__ import main
from sklearn_fsvc._src.utils.availability import install
from sklearn_fsvc.export.c import to_c
from sklearn_fsvc.kernels import Laplacian

skops = pytest.importorskip("skops")
pytest.importorskip("skops.io")

X, Y = load_iris(return_X_y=True)
MODEL = RBFClassifier(10, random_state=0, device="cpu").fit(X.astype(np.float32), Y)


class Mine(Laplacian):
    """A kernel that nobody trusts."""


def save(folder, model):
    skops.io.dump(model, folder / "model.skops")
    return str(folder / "model.skops")


def test_a_saved_model(tmp_path, capsys):
    header = tmp_path / "iris-10.h"
    main(["export", save(tmp_path, MODEL), "--c", str(header)])
    assert header.read_text() == to_c(MODEL, "iris_10")
    # Units, readout, intercept, classes; weights of the features.
    size = 10 * 4 * 4 + 10 * 3 * 4 + 3 * 4 + 3 * 4
    size += 0 if MODEL.feature_weights_ is None else 4 * 4
    if MODEL.kernel_ == "triangular":  # labels of the units, scores of the classes
        size += 10 + 3 * 3 * 4
    assert capsys.readouterr().out == f"{header}: {size} bytes of constants; call iris_10_predict\n"


def test_a_name_of_ones_own(tmp_path, capsys):
    header = tmp_path / "10.h"
    with pytest.raises(SystemExit, match="export: name='10' is no name in C"):
        main(["export", save(tmp_path, MODEL), "--c", str(header)])
    main(["export", save(tmp_path, MODEL), "--c", str(header), "--name", "iris"])
    assert header.read_text() == to_c(MODEL, "iris")


def test_what_cannot_be_done_is_said_in_a_line(tmp_path, monkeypatch):
    def says(message, model, header=tmp_path / "m.h"):
        with pytest.raises(SystemExit, match=message):
            main(["export", model, "--c", str(header)])

    says("export: there is no file .*no.skops", str(tmp_path / "no.skops"))
    (tmp_path / "text").write_text("text")
    says("text is no file of skops .*skops.io.dump", str(tmp_path / "text"))
    says("TanhProjector.* has no readout", save(tmp_path, TanhProjector(5).fit(X)))
    says("No such file or directory", save(tmp_path, MODEL), tmp_path / "no" / "m.h")
    mine = RBFClassifier(10, kernel=Mine(), alpha=1.0, radius=1.0).fit(X, Y)
    says("holds what is not of this package: .*Mine.*to_c", save(tmp_path, mine))
    monkeypatch.setattr("sklearn_fsvc._src.export.skops.find_spec", lambda name: None)
    says(re.escape(install("skops")), save(tmp_path, MODEL))
    says("export: there is no file .*no.skops", str(tmp_path / "no.skops"))
