"""Saving with skops, which builds only what its reader trusts."""

from scipy.sparse import csr_array

#: All that models of this package are made of, beside what skops trusts by itself. None of it
#: does anything when it is loaded but take in its own attributes.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "numpy.ma.MaskedArray",  # which NumPy has moved, too: skops trusts where it is now
    "numpy.ma.core.MaskedArray",
    f"{csr_array.__module__}.csr_array",  # which SciPy has moved
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn_fsvc._src.categories.LevelEncoder",
    "sklearn_fsvc._src.crosses.CrossEncoder",
    "sklearn_fsvc._src.engines.algebra.HostAlgebra",
    "sklearn_fsvc._src.estimators.online.IncrementalState",
    "sklearn_fsvc._src.pipelines._bounded",
    "sklearn_fsvc._src.pipelines._columns",
    "sklearn_fsvc._src.pipelines._median",
    "sklearn_fsvc._src.pipelines._scores",
    "sklearn_fsvc._src.pipelines._with_one_missing",
    "sklearn_fsvc._src.pipelines.MidrankTransformer",
    "sklearn_fsvc._src.pipelines.ValueScaler",
    "sklearn_fsvc._src.readouts.packed_symmetric.PackedSymmetric",
    "sklearn_fsvc._src.readouts.posterior.Posterior",
    "sklearn_fsvc._src.readouts.sample.Sample",
    "sklearn_fsvc._src.readouts.sample._Rows",
    "sklearn_fsvc._src.readouts.statistics.RidgeStatistics",
    "sklearn_fsvc._src.readouts.running_statistics._Values",
    "sklearn_fsvc._src.readouts.running_statistics.BufferedRows",
    "sklearn_fsvc._src.readouts.running_statistics.RunningStatistics",
    "sklearn_fsvc._src.rows.samples.Samples",
    "sklearn_fsvc._src.rows.sources.sparse.SparseRows",
    "sklearn_fsvc._src.tables.TableTransformer",
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
