"""Export of networks to ONNX, alone or in pipelines of scikit-learn, with skl2onnx."""

from typing import Any

from ...utils.availability import install_command

try:
    import skl2onnx
except ImportError as error:
    raise ImportError(
        f"{error}. The ONNX export needs optional packages: {install_command('onnx')}"
    ) from error

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ...estimators.patches import PatchClassifier, PatchProjector, PatchRegressor
from ...estimators.rbf import RBFClassifier, RBFProjector, RBFRegressor
from ...estimators.tanh import TanhClassifier, TanhProjector, TanhRegressor
from ...search.search_cv import HiddenSizeSearchCV
from ...stacking.estimators import StackedClassifier, StackedRegressor
from ...tabular.table_transformer import TableTransformer
from . import converters

__all__ = ["register", "to_onnx"]


def to_onnx(model: Any, X: Any, *, options: dict | None = None, **kwargs: Any) -> Any:
    """Convert a fitted model to an ONNX model.

    Calls `register`, and then ``skl2onnx.to_onnx`` with arrays instead of dictionaries for
    probabilities. Predictions are those of ``model``, but inputs are not validated: rows with NaN
    get a prediction, too. The preprocessing of `make_tabular_pipeline` is part of the ONNX model,
    except that of dates and text.

    Parameters
    ----------
    model : estimator
        A network of this package, a pipeline or another estimator of scikit-learn that contains
        networks, or a `HiddenSizeSearchCV`, of which ``best_estimator_`` is converted.
    X : ndarray of shape (n_samples, n_features)
        Samples in the dtype of later inputs; one is enough. For float32, float64 and uint8 the
        layer is computed as in ``model``; bools, int8, int32 and int64 are converted to float64. A
        DataFrame gives the model one input per column, see the notes, which only a pipeline that
        begins with a ``ColumnTransformer`` accepts, or one of `make_tabular_pipeline`.
    options : dict, optional
        Options of skl2onnx. Classifiers support ``raw_scores=True``: decision values instead of
        probabilities. By default ``{"zipmap": False}`` for classifiers.
    **kwargs
        Parameters of ``skl2onnx.to_onnx``, such as ``target_opset``: at least 14, or 19 if
        the equality of two columns of strings is a feature.

    Returns
    -------
    onnx.ModelProto
        Its input is ``X``. Floating-point outputs are float64 if X is, else float32; those of
        `make_tabular_pipeline` are float32, like its features.

        A classifier has the outputs ``label``, (n_samples,) or (n_samples, n_outputs), of
        int64 or strings, and ``probabilities``, as of `predict_proba`. Without `predict_proba`, or
        with ``raw_scores=True``, the second output is ``scores``, as of `decision_function`, but
        with two columns for two classes: minus the decision value, and the decision value. For
        several outputs they are a sequence.

        A regressor has ``variable``, (n_samples, n_outputs), also for one output; a projector
        has ``variable``, (n_samples, n_components).

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    ValueError, TypeError
        For a custom kernel whose function has no ONNX operator here, for labels that are
        neither strings nor integers, for X with other features, for float32 X if y is beyond the
        range of float32, for units on patches of images, for columns of dates or text, also of
        dates as categories, and for numbers of other dtypes, such as float16.

    Notes
    -----
    Of a DataFrame the model has one input of shape (n_samples, 1) per column, in the same order:
    ``np.asarray(X[name])[:, None]``. Objects are strings. In names of inputs skl2onnx replaces
    characters that are neither letters nor digits by underscores.

    A missing number is NaN; a column of integers that may have missing values must have a float
    dtype in X. A missing string is empty, or what onnxruntime converts None, NaN and pandas.NA to
    ("None", "nan", "<NA>"), unless that is a category.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_fsvc import TanhClassifier
    >>> from sklearn_fsvc.export.onnx import to_onnx
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), TanhClassifier(50, random_state=0)).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    >>> (label,) = session.run(["label"], {"X": X})
    >>> bool((label == model.predict(X)).all())
    True

    A DataFrame with categories and missing values:

    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn_fsvc import make_tabular_pipeline
    >>> table = pd.DataFrame({"size": np.arange(150.0), "color": ["red", "green", None] * 50})
    >>> y = (table["size"] > 50) & (table["color"] != "red")
    >>> model = make_tabular_pipeline(preset="fast", random_state=0).fit(table, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model, table).SerializeToString())
    >>> inputs = {name: np.asarray(table[name])[:, None] for name in table}
    >>> _, probabilities = session.run(None, inputs)
    >>> bool(np.allclose(probabilities, model.predict_proba(table), atol=1e-4))
    True
    """
    register()
    check_is_fitted(model)
    if isinstance(model, HiddenSizeSearchCV):
        model = model.best_estimator_
    if options is None and is_classifier(model):
        options = {"zipmap": False}
    if hasattr(X, "columns"):
        converters.check_categories(model, X)
        kwargs.setdefault("initial_types", converters.column_types(X))
    elif hasattr(X, "dtype"):
        converters.check_dtype("X", X.dtype)
    return skl2onnx.to_onnx(model, X, options=options, **kwargs)


def register() -> None:
    """Register the converters of this package with skl2onnx.

    From then on ``skl2onnx.to_onnx`` and ``skl2onnx.convert_sklearn`` support its networks, alone
    and within pipelines. Repeated calls have no effect.
    """
    converters_of: dict[tuple[type, ...], dict[str, Any]] = {
        (StackedClassifier, RBFClassifier, TanhClassifier): {
            "shape_fct": converters.shape_classifier,
            "convert_fct": converters.convert_classifier,
            "parser": converters.parse_classifier,
            "options": converters.CLASSIFIER_OPTIONS,
        },
        (StackedRegressor, RBFRegressor, TanhRegressor): {
            "shape_fct": converters.shape_regressor,
            "convert_fct": converters.convert_regressor,
        },
        (RBFProjector, TanhProjector): {
            "shape_fct": converters.shape_transformer,
            "convert_fct": converters.convert_transformer,
        },
        # Their shape function raises, so that the converter is not called.
        (PatchClassifier, PatchRegressor, PatchProjector): {
            "shape_fct": converters.refuse_patches,
            "convert_fct": converters.convert_transformer,
        },
        (TableTransformer,): {
            "shape_fct": converters.shape_table,
            "convert_fct": converters.convert_table,
            "parser": converters.parse_table,
        },
    }
    for classes, functions in converters_of.items():
        for cls in classes:
            skl2onnx.update_registered_converter(cls, f"SklearnFsvc{cls.__name__}", **functions)
