"""The samples `X_val`, `y_val` that validate the choices of a fit, in place of held-out ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y

from ..data.columns import check_labels_are_exact, check_unmasked
from ..data.dask_blocks import open_input
from ..data.samples import Samples
from ..data.validation import to_host, validate_samples
from ..parts.target import TargetSpec
from ..targets.encoding import validate_weights
from ..targets.labels import UnseenClassesError
from ..targets.numeric import TargetShapeError


@dataclass(frozen=True, eq=False)
class ValidationSet:
    """The arguments `X_val`, `y_val` and `sample_weight_val` of `fit`."""

    X: Any
    y: Any
    sample_weight: Any

    @classmethod
    def from_arguments(cls, X_val: Any, y_val: Any, sample_weight_val: Any) -> Self | None:
        """Return the validation set, None without one; raise if it lacks X."""
        if X_val is not None:
            return cls(X_val, y_val, sample_weight_val)
        for name, value in {"y_val": y_val, "sample_weight_val": sample_weight_val}.items():
            if value is not None:
                raise ValueError(f"{name} was given without X_val; pass X_val and y_val, or none.")
        return None

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `fit`."""
        return {"X_val": self.X, "y_val": self.y, "sample_weight_val": self.sample_weight}

    def validated(self, model: Any, engine: Any) -> Self:
        """Return the set in the form in which a model, which knows its features, takes samples."""
        check_unmasked(**self.arguments)
        with _named_errors():
            X, y, weight = open_input(
                self.X, model.device, model.max_memory, self.y, self.sample_weight
            )
        if y is None:
            raise ValueError("X_val was given without y_val; pass both, or none.")
        with _named_errors():
            X = validate_samples(model, engine, X, reset=False)
            check_labels_are_exact(model, y)
            y = _check_y(to_host(y), multi_output=True, estimator=model)
            check_consistent_length(range(len(X)), y)
        return type(self)(X, y, validate_weights(X, weight, name="sample_weight_val"))

    def encode(self, target: TargetSpec) -> Samples:
        """Return the `Samples` of the validated set, with targets encoded as those of the fit."""
        try:
            with _named_errors():
                return target.encode(self.X, self.y, self.sample_weight)
        except UnseenClassesError as error:
            raise ValueError(
                f"y_val contains {error.classes}, and y does not; leave out these validation "
                "samples, or add training samples of these classes."
            ) from error
        except TargetShapeError as error:
            fitted = ", ".join(["n_samples", *map(str, error.outputs)])
            raise ValueError(
                f"y_val has shape {error.shape}, and y ({fitted}{',' * (not error.outputs)}); pass "
                "y_val with the dimensions and the columns of y, reshaped as y if needed."
            ) from error


@contextmanager
def _named_errors() -> Iterator[None]:
    """Context in which the message of an error names the validation samples as its cause."""
    try:
        yield
    except (UnseenClassesError, TargetShapeError):
        raise
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"In the validation samples X_val and y_val: {error}") from error
