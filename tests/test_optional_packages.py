"""Features of optional packages work if they are the first to import the package.

The package still works afterwards. Each program needs a process of its own: in the process of the
other tests the packages have been imported before.
"""

from importlib.util import find_spec

import pytest

from in_turn import run_in_turn

SETUP = """
import sys
import numpy as np, sklearn_fsvc as f
X = np.random.default_rng(0).random((60, 3)); y = np.arange(60) % 2
model = f.TanhClassifier(5, alpha=1.0, random_state=0, device="blas")
"""
# Dask still computes on threads and on a cluster, and its configuration is unchanged.
DASK_WORKS = """
assert da.ones(3, chunks=1).sum().compute() == 3
import warnings, distributed
assert dask.config.get("distributed.admin.large-graph-warning-threshold")
with distributed.Client(processes=False, dashboard_address=None, n_workers=1) as client:
    assert da.ones(3, chunks=1).sum().compute() == 3
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 B"}):
        warnings.filterwarnings("error", "Sending large graph")
        model.fit(L, y)
"""
DASK = "import dask, dask.array as da\nL = da.from_array(X, chunks=(20, 3))\n"
# Name -> the required packages, and a program that uses a feature before it imports them.
PROGRAMS = {
    "fit to Dask arrays": (
        ["dask", "distributed"],
        DASK + "model.fit(L, y)\n" + DASK_WORKS,
    ),
    "novelty selection on Dask arrays": (
        ["dask", "distributed"],
        DASK + "f.RBFClassifier(5, selection_radius=0.3, device='blas').fit(L, y)\n"
        "assert da.ones(3, chunks=1).sum().compute() == 3\n",
    ),
    "predictions of Dask arrays": (
        ["dask", "distributed"],
        DASK + "expected = model.fit(X, y).predict(X)\n"
        "np.testing.assert_array_equal(model.predict(L).compute(), expected)\n"
        "assert model.score(L, da.from_array(y)) == model.score(X, y)\n"
        "assert da.ones(3, chunks=1).sum().compute() == 3\n",
    ),
    "explanation as a DataFrame": (
        ["pandas"],
        "table = f.RBFClassifier(5, device='blas').fit(X, y).explain(X[:2], n=3).to_frame()\n"
        "import pandas as pd\n"
        "assert isinstance(table, pd.DataFrame)\n"
        "assert pd.concat([table, table]).groupby('row').size().eq(6).all()\n",
    ),
    "output as polars": (
        ["polars"],
        "H = f.TanhProjector(3).set_output(transform='polars').fit_transform(X)\n"
        "import polars as pl\n"
        "assert isinstance(H, pl.DataFrame)\n"
        "assert pl.DataFrame({'a': [1, 2]})['a'].sum() == 3\n",
    ),
    "Arrow batches": (
        ["pyarrow"],
        "import pyarrow as pa\n"
        "batch = pa.RecordBatch.from_arrays([*map(pa.array, X.T), pa.array(y)], list('abcy'))\n"
        "assert model.fit(lambda: [batch], 'y').n_features_in_ == 3\n"
        "assert pa.Table.from_batches([batch])['y'].to_pylist() == list(y)\n",
    ),
    "HDF5 datasets": (
        ["h5py"],
        "import h5py\n"
        "with h5py.File('rows', 'w', driver='core', backing_store=False) as file:\n"
        "    file['X'], file['y'] = X, y\n"
        "    model.fit(file['X'], file['y']).predict(file['X'])\n"
        "    assert file['X'][1:, 0].sum() == X[1:, 0].sum()\n",
    ),
    "zarr arrays": (
        ["zarr"],
        "import zarr\n"
        "rows = zarr.array(X, chunks=(20, 3))\n"
        "model.fit(rows, y).predict(rows)\n"
        "np.testing.assert_array_equal(zarr.array(rows[:])[5:9], X[5:9])\n",
    ),
    "ONNX": (
        ["skl2onnx", "onnxruntime"],
        "from sklearn_fsvc.export.onnx import to_onnx\n"
        "from sklearn.linear_model import LinearRegression\n"
        "import onnxruntime, skl2onnx\n"
        "for made, own in ((to_onnx, model), (skl2onnx.to_onnx, LinearRegression())):\n"
        "    written = made(own.fit(X, y), X[:1]).SerializeToString()\n"
        "    session = onnxruntime.InferenceSession(written)\n"
        "    np.testing.assert_allclose(session.run(None, {'X': X})[0].ravel(), own.predict(X))\n",
    ),
    "skops": (
        ["skops"],
        "from sklearn_fsvc.export.skops import TRUSTED\n"
        "from sklearn_fsvc._src.cli import export_header\n"
        "import pathlib, tempfile\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    file = pathlib.Path(folder, 'model.skops')\n"
        "    file.write_text('no model')\n"
        "    try: export_header(file, file.with_suffix('.h'))\n"
        "    except ValueError as error: assert 'not a skops file' in str(error)\n"
        "import skops.io\n"
        "loaded = skops.io.loads(skops.io.dumps(model.fit(X, y)), trusted=TRUSTED)\n"
        "np.testing.assert_array_equal(loaded.predict(X), model.predict(X))\n",
    ),
    "displays": (
        ["matplotlib"],
        "from sklearn_fsvc.inspection import FeatureWeightsDisplay\n"
        "own = f.RBFClassifier(5, feature_weights=[1.0, 2.0, 3.0], device='blas').fit(X, y)\n"
        "FeatureWeightsDisplay.from_estimator(own)\n"
        "import matplotlib.pyplot as plt\n"
        "plt.subplots()[1].plot([1, 2])\n"
        "plt.gcf().canvas.draw()\n",
    ),
    "cache folder": (
        ["platformdirs"],
        "import os\n"
        "del os.environ['SKLEARN_FSVC_CACHE']\n"
        "from sklearn_fsvc._src.engines.profiles import folder\n"
        "import platformdirs\n"
        "assert folder() == platformdirs.user_cache_path('sklearn_fsvc')\n",
    ),
    "progress bars": (
        ["rich", "sklearn.callback"],
        "from sklearn.callback import ProgressBar\n"
        "model.set_callbacks(ProgressBar()).fit(X, y)\n"
        "import rich\n"
        "rich.print('[bold]done[/bold]')\n",
    ),
    "MKL": (
        ["mkl"],
        "from sklearn_fsvc._src.engines import ENGINES\n"
        "if not ENGINES['mkl']().why_unavailable():\n"
        "    model.set_params(device='mkl').fit(X, y).predict(X)\n"
        "    np.testing.assert_allclose(X.T @ X, sum(np.outer(x, x) for x in X))\n",
    ),
}


@pytest.mark.exhaustive
def test_features_may_be_the_first_to_import_a_package():
    programs = [
        f"{SETUP}print('with', {needed}, file=sys.stderr)\n{program}"
        for needed, program in PROGRAMS.values()
        if all(find_spec(name) for name in needed)
    ]
    if not programs:
        pytest.skip("no optional package is installed")
    run_in_turn(*programs, module="sklearn_fsvc", MPLBACKEND="agg")
