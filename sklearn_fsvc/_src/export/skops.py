"""Types of this package in skops files, which are loaded without running code of the file."""

from scipy.sparse import csr_array

#: Types that models of this package consist of, in addition to those that skops trusts itself.
#: Loading one of them sets its attributes, and has no other effect.
TRUSTED = (
    "numpy.dtype",
    "numpy.ma.MaskedArray",  # its module depends on the version of NumPy
    "numpy.ma.core.MaskedArray",
    f"{csr_array.__module__}.csr_array",  # likewise with SciPy
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn_fsvc._src.engines.algebra.HostAlgebra",
    "sklearn_fsvc._src.estimators.buffer.RawSamples",
    "sklearn_fsvc._src.estimators.buffer.SampleBuffer",
    "sklearn_fsvc._src.estimators.incremental.IncrementalState",
    "sklearn_fsvc._src.readouts.drift.ErrorMonitor",
    "sklearn_fsvc._src.readouts.packed_symmetric.PackedSymmetric",
    "sklearn_fsvc._src.readouts.linear.Posterior",
    "sklearn_fsvc._src.readouts.sample.Sample",
    "sklearn_fsvc._src.readouts.sample.SampledRows",
    "sklearn_fsvc._src.readouts.statistics.RidgeStatistics",
    "sklearn_fsvc._src.readouts.running_statistics._Values",
    "sklearn_fsvc._src.readouts.running_statistics.BufferedSamples",
    "sklearn_fsvc._src.readouts.running_statistics.RunningStatistics",
    "sklearn_fsvc._src.data.samples.Samples",
    "sklearn_fsvc._src.data.sources.arrays.SparseSource",
    "sklearn_fsvc._src.tabular.categories.CategoryEncoder",
    "sklearn_fsvc._src.tabular.interactions.InteractionEncoder",
    "sklearn_fsvc._src.tabular.column_selector.ColumnSelector",
    "sklearn_fsvc._src.tabular.dates.DatetimeEncoder",
    "sklearn_fsvc._src.tabular.scalers.MedianImputer",
    "sklearn_fsvc._src.tabular.scalers.ValueScaler",
    "sklearn_fsvc._src.tabular.scalers.RankScaler",
    "sklearn_fsvc._src.tabular.scalers.median",
    "sklearn_fsvc._src.tabular.text.TextEncoder",
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
