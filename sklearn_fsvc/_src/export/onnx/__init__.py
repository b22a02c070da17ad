"""Networks as ONNX models, alone or in pipelines of scikit-learn, by skl2onnx."""

from ...utils.availability import install

try:
    import skl2onnx
except ImportError as error:
    raise ImportError(
        f"{error}. ONNX models are made by packages of their own: {install('onnx')}"
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


def register():
    """Let skl2onnx know the networks of this package.

    From then on ``skl2onnx.to_onnx`` and ``skl2onnx.convert_sklearn`` take them, alone and
    within pipelines. It does not matter how often it is called.
    """
    kinds = {
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
        (PatchClassifier, PatchRegressor, PatchProjector): {
            "shape_fct": converters.refuse_patches,
            "convert_fct": converters.convert_transformer,  # which is not reached
        },
        (TableTransformer,): {
            "shape_fct": converters.refuse_tables,
            "convert_fct": converters.convert_transformer,
        },
    }
    for estimators, functions in kinds.items():
        for each in estimators:
            skl2onnx.update_registered_converter(each, f"SklearnFsvc{each.__name__}", **functions)


def to_onnx(model, X, *, options=None, **more):
    """Convert a fitted model to an ONNX model.

    `register`, and then ``skl2onnx.to_onnx`` without dictionaries in the place of
    probabilities. The model predicts as ``model`` does, but nothing is checked: rows with NaN
    get a prediction, too.

    Parameters
    ----------
    model : estimator
        A network of this package, a pipeline or another estimator of scikit-learn with
        networks in it, or a `HiddenSizeSearchCV`, of which it is ``best_estimator_``.
    X : ndarray of shape (n_samples, n_features)
        Rows such as the model will meet: of one row or more, what counts is the dtype. Of
        float32, float64 and uint8 rows the layer is computed as in ``model``; other numbers
        become float64. A DataFrame is an input for each column, which only a pipeline that
        begins with a ``ColumnTransformer`` takes.
    options : dict, optional
        As of skl2onnx. Classifiers know ``raw_scores=True``: decision values instead of
        probabilities. By default ``{"zipmap": False}`` for classifiers.
    **more
        As of ``skl2onnx.to_onnx``, such as ``target_opset``, 14 or more.

    Returns
    -------
    onnx.ModelProto
        Its input is ``X``. Numbers that come out are float64 if X is, else float32.

        A classifier has the outputs ``label``, (n_samples,) or (n_samples, n_outputs), of
        int64 or strings; and ``probabilities``, as of `predict_proba`. Where it has none, or with
        ``raw_scores=True``, ``scores``, as of `decision_function`, but with two columns for two
        classes: minus the decision value, and the decision value. Those of several outputs
        are a sequence.

        A regressor has ``variable``, (n_samples, n_outputs), also of one output; a projector
        has ``variable``, (n_samples, n_components).

    Raises
    ------
    NotFittedError
        For a model that is not fitted.
    ValueError, TypeError
        For a kernel of your own whose function has no ONNX operator here, for labels that
        are neither strings nor whole numbers, for X of other features, for float32 X where y
        is beyond the range of float32, for units on patches of images, and for what
        `make_tabular_pipeline` puts before a network.

    Examples
    --------
    >>> import onnxruntime
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_fsvc import TanhClassifier
    >>> from sklearn_fsvc.export.onnx import to_onnx
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), TanhClassifier(300, random_state=0)).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    >>> (label,) = session.run(["label"], {"X": X})
    >>> bool((label == model.predict(X)).all())
    True
    """
    register()
    check_is_fitted(model)
    if isinstance(model, HiddenSizeSearchCV):
        model = model.best_estimator_
    if options is None and is_classifier(model):
        options = {"zipmap": False}
    return skl2onnx.to_onnx(model, X, options=options, **more)
