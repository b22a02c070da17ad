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
    "sklearn_fsvc.categories.LevelEncoder",
    "sklearn_fsvc.classifiers.mixture.MixtureClassifier",
    "sklearn_fsvc.classifiers.patches.PatchClassifier",
    "sklearn_fsvc.classifiers.rbf.RBFClassifier",
    "sklearn_fsvc.classifiers.tanh.TanhClassifier",
    "sklearn_fsvc.engines.algebra.HostAlgebra",
    "sklearn_fsvc.estimators.online.Learning",
    "sklearn_fsvc.kernels.Gaussian",
    "sklearn_fsvc.kernels.Laplacian",
    "sklearn_fsvc.kernels.PoweredExponential",
    "sklearn_fsvc.kernels.Triangular",
    "sklearn_fsvc.pipelines.BoundedQuantileTransformer",
    "sklearn_fsvc.pipelines._columns",
    "sklearn_fsvc.pipelines._with_one_missing",
    "sklearn_fsvc.projectors.patches.PatchProjector",
    "sklearn_fsvc.projectors.rbf.RBFProjector",
    "sklearn_fsvc.projectors.tanh.TanhProjector",
    "sklearn_fsvc.readouts.panels.Panels",
    "sklearn_fsvc.readouts.posterior.Posterior",
    "sklearn_fsvc.readouts.sample.Sample",
    "sklearn_fsvc.readouts.sample._Rows",
    "sklearn_fsvc.readouts.statistics.RidgeStatistics",
    "sklearn_fsvc.readouts.stream.Stream",
    "sklearn_fsvc.readouts.stream._Values",
    "sklearn_fsvc.readouts.stream._Waiting",
    "sklearn_fsvc.regressors.mixture.MixtureRegressor",
    "sklearn_fsvc.regressors.patches.PatchRegressor",
    "sklearn_fsvc.regressors.rbf.RBFRegressor",
    "sklearn_fsvc.regressors.tanh.TanhRegressor",
    "sklearn_fsvc.rows.samples.Samples",
    "sklearn_fsvc.rows.sources.sparse.SparseRows",
    "sklearn_fsvc.search.HiddenSizeSearchCV",
)
