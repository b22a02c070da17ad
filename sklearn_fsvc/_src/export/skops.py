"""Saving with skops, which builds only what its reader trusts."""

import re
from importlib.util import find_spec
from pathlib import Path

from scipy.sparse import csr_array

from ..utils.availability import install
from .c import header_of

#: All that models of this package are made of, beside what skops trusts by itself. None of it
#: does anything when it is loaded but take in its own attributes.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "numpy.ma.MaskedArray",  # which NumPy has moved, too: skops trusts where it is now
    "numpy.ma.core.MaskedArray",
    f"{csr_array.__module__}.csr_array",  # which SciPy has moved
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn_fsvc._src.tabular.encoders.LevelEncoder",
    "sklearn_fsvc._src.tabular.encoders.CrossEncoder",
    "sklearn_fsvc._src.engines.algebra.HostAlgebra",
    "sklearn_fsvc._src.estimators.incremental.IncrementalState",
    "sklearn_fsvc._src.tabular.pipelines._bounded",
    "sklearn_fsvc._src.tabular.pipelines._columns",
    "sklearn_fsvc._src.tabular.pipelines._median",
    "sklearn_fsvc._src.tabular.pipelines._scores",
    "sklearn_fsvc._src.tabular.pipelines._with_one_missing",
    "sklearn_fsvc._src.tabular.pipelines.MidrankTransformer",
    "sklearn_fsvc._src.tabular.pipelines.ValueScaler",
    "sklearn_fsvc._src.readouts.packed_symmetric.PackedSymmetric",
    "sklearn_fsvc._src.readouts.linear.Posterior",
    "sklearn_fsvc._src.readouts.sample.Sample",
    "sklearn_fsvc._src.readouts.sample.SampledRows",
    "sklearn_fsvc._src.readouts.statistics.RidgeStatistics",
    "sklearn_fsvc._src.readouts.running_statistics._Values",
    "sklearn_fsvc._src.readouts.running_statistics.BufferedRows",
    "sklearn_fsvc._src.readouts.running_statistics.RunningStatistics",
    "sklearn_fsvc._src.data.samples.Samples",
    "sklearn_fsvc._src.data.sources.arrays.SparseRows",
    "sklearn_fsvc._src.tabular.table_transformer.TableTransformer",
    "sklearn_fsvc.HiddenSizeSearchCV",
    "sklearn_fsvc.kernels.Gaussian",
    "sklearn_fsvc.kernels.Laplacian",
    "sklearn_fsvc.kernels.PoweredExponential",
    "sklearn_fsvc.kernels.Triangular",
    "sklearn_fsvc.StackedClassifier",
    "sklearn_fsvc.StackedRegressor",
    "sklearn_fsvc.PatchClassifier",
    "sklearn_fsvc.PatchProjector",
    "sklearn_fsvc.PatchRegressor",
    "sklearn_fsvc.RBFClassifier",
    "sklearn_fsvc.RBFProjector",
    "sklearn_fsvc.RBFRegressor",
    "sklearn_fsvc.TanhClassifier",
    "sklearn_fsvc.TanhProjector",
    "sklearn_fsvc.TanhRegressor",
)


# python -m sklearn_fsvc export: from a file of skops to a file for another program.


def export(model, header, name=None):
    """Write the model in a file of skops as a C header, and say how large it is.

    Names in the header begin with `name`, by default that of its file. It raises RuntimeError where
    skops is not installed, and ValueError for what cannot be read or written.
    """
    header = Path(header)
    name = name or re.sub(r"\W", "_", header.stem, flags=re.ASCII)
    try:
        written = header_of(_load(model), name)
        header.write_text(written.text)
    except (TypeError, OSError) as error:  # these, too, are for the user
        raise ValueError(error) from error
    print(f"{header}: {written.n_bytes:,} bytes of constants; call {name}_predict")


def _load(path):
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}.")
    if find_spec("skops") is None:
        raise RuntimeError(f"the model is read by skops; {install('skops')}")
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        return skops.io.load(path, trusted=TRUSTED)
    except UntrustedTypesFoundException as error:
        raise ValueError(
            f"{path} holds what is not of this package: {error} Load it in Python, with what you "
            "trust, and call sklearn_fsvc.export.c.to_c."
        ) from error
    except Exception as error:  # it reads zip files, of JSON
        raise ValueError(
            f"{path} is no file of skops ({error}); save the model by skops.io.dump(model, path)."
        ) from error
