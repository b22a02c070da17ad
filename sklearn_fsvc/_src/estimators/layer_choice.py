"""How `partial_fit` chooses the hidden layer: provisionally for few samples, then once for all.

States of an estimator, by its private attributes:

1. ``_sample_buffer`` alone: samples are buffered, and there is no layer.
2. ``_sample_buffer`` and ``_incremental_state``: a provisional layer was chosen because an output
   was requested, and samples are buffered and summed.
3. ``_incremental_state`` alone: the layer is fixed, and all samples are summed.

The methods run on a copy of the estimator, see `state.atomic_update`.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.utils import check_consistent_length

from ..data.columns import check_labels_are_exact, check_no_name, check_unmasked
from ..data.samples import Samples
from ..data.streaming import count_operations
from ..data.validation import to_host, validate_on_host
from ..engines import get_engine
from ..hidden_layers.parameters import check_layer_names
from ..parts.composition import Parts, parts_of
from ..parts.target import TargetSpec
from ..parts.units import Units
from ..readouts.penalty_search import SearchHistory
from ..targets.encoding import are_all_zero
from ..utils.parameters import is_option
from ..utils.user_warnings import warn, without_warnings
from .buffer import RawSamples, SampleBuffer, buffer_bytes, is_buffered
from .fit_report import FitReport
from .incremental import Evaluator, IncrementalState
from .network import Network, with_center_targets


class BufferedNetwork(Network):
    """A network with a readout, whose layer is chosen for samples that arrive in batches."""

    alpha: Any
    forgetting_factor: float
    # Attributes of an instance only where they are not None.
    _incremental_state: Any = None  # IncrementalState
    _sample_buffer: Any = None  # SampleBuffer

    @property
    def _is_buffering(self) -> bool:
        """Whether samples are buffered, since the layer is not fixed yet."""
        return self._sample_buffer is not None

    @property
    def _has_statistics(self) -> bool:
        """Whether there are sums over samples, of a fixed or of a provisional layer."""
        return self._incremental_state is not None

    @property
    def _has_readout(self) -> bool:
        """Whether there is a readout, of `fit` or of the sums."""
        return "readout_coef_" in vars(self)

    @property
    def _is_incremental(self) -> bool:
        """Whether samples were added by `partial_fit`."""
        return self._has_statistics or self._is_buffering

    def _is_layer_open(self, units: Units) -> bool:
        """Return whether further samples are buffered; given layers are fixed at once."""
        is_fitted = self._has_readout or self._has_statistics
        return self._is_buffering or (not is_fitted and is_buffered(units))

    # Layers that are given.

    def _start_with_layer(self, parts, X, y, sample_weight, classes):
        """Use the layer that is given, or that of `fit`; return the fitted parts and `Samples`."""
        is_new = not self._has_readout
        if not is_new:
            warn(
                f"This {type(self).__name__} was trained by fit, which keeps no sums of its "
                "samples: they are forgotten, and training starts again in the same hidden layer. "
                "To have their sums, call partial_fit for the first samples as well."
            )
        with get_engine(self.device, count_operations(X, parts.units.n_activations)) as engine:
            X, y = self._validated_batch(X, y, reset=is_new)
            target = parts.target
            if is_new:
                pretrained = parts_of(parts.units.pretrained)
                target = target.fit_first_batch(
                    X, y, sample_weight, classes, pretrained and pretrained.target
                )
            else:
                target.check_classes(y, classes)
            samples = target.encode(X, y, sample_weight)
            chooses = is_new or parts.units.pretrained is not None
            parts = self._start(replace(parts, target=target), engine, samples, chooses)
        return parts, samples

    def _start(self, parts: Parts, engine: Any, samples: Samples, chooses: bool = True) -> Parts:
        """Start sums for a layer, which is chosen for the samples; return the fitted parts."""
        units, target, job = parts.units, parts.target, self._job(engine, "partial_fit")
        scaled, scale = samples.with_unit_weights()
        history = SearchHistory(units.start_alpha, alpha_scale=scale)
        if chooses:
            check_layer_names(units.pretrained, self)
            on_device, job = units.order_samples(scaled).on_device(job)
            report = FitReport(job.description, self.verbose)
            units = with_center_targets(units.fit(job, on_device, history), target, on_device)
            report.print_layer(units, history)
            _warn_of_one_class(units, samples)
        state = IncrementalState.start(units, target, self.alpha, job.memory_limit, history)
        if self._is_buffering and self._has_statistics:
            # Errors of provisional layers are compared with those of later ones.
            state = replace(state, errors=self._incremental_state.errors)
        parts = Parts(units, target, parts.readout.with_fitted())
        self._set_fitted(parts, engine.name, history.table, _incremental_state=state)
        return parts

    def _validated_batch(self, X, y, reset=False):
        if callable(X):
            raise TypeError(
                f"X={X!r} returns chunks of samples; pass partial_fit and forget one chunk at a "
                "time."
            )
        check_unmasked(X=X, y=y)
        check_no_name(X, y=y)
        check_labels_are_exact(self, y)
        return validate_on_host(self, to_host(X), to_host(y), multi_output=True, reset=reset)

    @property
    def _is_untrained(self) -> bool:
        return not self._is_incremental and not self._has_readout

    def _has_no_weight(self, parts, X, y, sample_weight):
        """Return whether the weights of a batch are all 0, those of its classes included."""
        if are_all_zero(sample_weight):
            return True
        if not parts.target.has_zero_weights:
            return False
        X, y = self._validated_batch(X, y, reset=self._is_untrained)
        return parts.target.has_no_weight(*parts.target.validate_targets(X, y, sample_weight))

    def _add_zero_weights(self, parts, X, y, sample_weight, classes):
        """Validate a batch whose weights are all 0: it adds nothing, but may list the classes."""
        is_first = self._is_untrained
        X, y = self._validated_zero_weights(X, y, sample_weight, reset=is_first)
        if is_first:
            if classes is not None:
                y, _ = parts.target.validate_targets(X, y, None)
                parts = replace(parts, target=parts.target.fit_classes([y], classes))
            self._store_buffer(parts, SampleBuffer(has_classes=classes is not None))
        elif not self._is_buffering or self._sample_buffer.has_classes:
            parts.target.check_classes(y, classes)

    def _validated_zero_weights(self, X, y, sample_weight, reset=False):
        X, y = self._validated_batch(X, y, reset=reset)
        check_consistent_length(X, sample_weight)
        return X, y

    # Layers that are chosen.

    def _buffer_samples(self, parts, X, y, sample_weight, classes):
        """Buffer a batch; choose the layer and sum all samples if there are enough of them."""
        buffer = self._sample_buffer
        is_first = buffer is None
        if buffer is None:
            buffer = SampleBuffer()
            get_engine(self.device)  # raises for an invalid device
        X, y = self._validated_batch(X, y, reset=is_first)
        y, weight = parts.target.validate_targets(X, y, sample_weight)
        given, before = RawSamples(X, y, weight), parts.target
        batch = given.without_zero_weights()
        targets = [*(part.y for part in buffer.parts), batch.y]
        if buffer.has_classes:
            target = before
            target.check_classes(y, classes)
        else:
            target = before.fit_classes(targets, classes)
            buffer = replace(buffer, has_classes=classes is not None)
        _check_batch(target, batch, buffer, self._incremental_state)
        parts = replace(parts, target=target)

        has_all_classes = partial(target.has_all_classes, targets)
        if buffer.is_complete(parts.units, self.max_memory, has_all_classes, batch):
            # `support_` are indices in a first batch that is large enough.
            self._fix_layer(parts, buffer, batch if buffer.parts else given)
        else:
            buffer = buffer.add(batch, self.forgetting_factor)
            self._store_buffer(parts, buffer, before.has_same_classes(target))

    def _store_buffer(self, parts, buffer, has_same_target=True):
        """Replace the buffer; a provisional layer is kept if it has the same classes."""
        state = self._incremental_state
        if state is not None and has_same_target and buffer.parts:
            self._store_state(
                parts, replace(state, solved_for=None), self.device_, _sample_buffer=buffer
            )
        else:
            parts = Parts(parts.units.with_fitted(), parts.target, parts.readout.with_fitted())
            self._set_fitted(parts, None, _sample_buffer=buffer)

    def _store_state(self, parts, state, device, search_results=None, **private):
        """Set the fitted attributes; those of the readout only if it is solved."""
        if state.solved_for is None:
            parts = replace(parts, readout=parts.readout.with_fitted())
        if search_results is None:
            search_results = vars(self).get("search_results_")
        if self._is_buffering:
            private = {"_sample_buffer": self._sample_buffer} | private
        device = device or self.device_
        self._set_fitted(parts, device, search_results, _incremental_state=state, **private)

    def _fix_layer(
        self, parts: Parts, buffer: SampleBuffer, batch: RawSamples | None = None
    ) -> None:
        """Choose the layer from the buffer and a batch, sum their samples, and drop the buffer."""
        parts.target.check_weighted_classes()  # further classes are possible until now
        chosen_from = list(buffer.parts)
        if batch is not None:
            # A batch that does not fit in the buffer is enough, and is not copied.
            is_large = batch.n_bytes >= buffer_bytes(self.max_memory)
            is_alone = is_large or not chosen_from
            chosen_from = [batch] if is_alone else [*chosen_from, batch]
        parts = self._choose_layer(parts, RawSamples.concatenate(chosen_from))
        state, evaluate = self._incremental_state, Evaluator(self, parts.units)
        state = state.update_buffered(replace(buffer, n_summed=0), parts.target, evaluate)
        if batch is not None:
            samples = parts.target.encode(batch.X, batch.y, batch.weight).without_zero_weights()
            state = state.update(samples, self.forgetting_factor, evaluate)
        self._store_state(parts, state, evaluate.device)

    def _choose_layer(self, parts: Parts, raw: RawSamples) -> Parts:
        """Choose the layer for samples, as `fit` does, and start sums; the buffer is dropped."""
        if len(raw) == 1:
            raw = RawSamples.concatenate([raw, raw])  # one of them is held out
        with get_engine(self.device, count_operations(raw.X, parts.units.n_activations)) as engine:
            pretrained = parts_of(parts.units.pretrained)
            target = parts.target.fit_buffered(
                raw.X, raw.y, raw.weight, pretrained and pretrained.target
            )
            samples = target.encode(raw.X, raw.y, raw.weight)
            # Without the attributes of a provisional layer.
            parts = replace(parts, units=parts.units.with_fitted(), target=target)
            return self._start(parts, engine, samples)

    def _matches_state(self, parts: Parts) -> bool:
        """Return whether there are sums of the layer and class weights of the parameters."""
        state = self._incremental_state
        if state is None or state.class_weight != parts.target.class_weight:
            return False
        return state.matches(parts.units)

    def _sum_buffer(self) -> None:
        """Sum the buffered samples in a provisional layer, which is chosen if there is none.

        It is chosen anew if the buffer has grown by a good part since, or if a parameter was
        changed that the layer or the held-out samples depend on.
        """
        parts, buffer = self._parts(), self._sample_buffer
        if not is_buffered(parts.units):  # a layer was given meanwhile
            self._fix_layer(parts, buffer)
            return
        state = self._incremental_state
        lacks_held_out = is_option(self.alpha, "auto") and state and not state.statistics.n_parts
        is_outdated = buffer.has_grown or lacks_held_out
        if is_outdated or not self._matches_state(parts):
            with without_warnings():  # of a layer that will be replaced
                parts = self._choose_layer(parts, buffer.joined())
            buffer = buffer.provisional()
            state = self._incremental_state
        evaluate = Evaluator(self, parts.units)
        state = state.update_buffered(buffer, parts.target, evaluate)
        buffer = replace(buffer, n_summed=len(buffer))
        self._store_state(parts, state, evaluate.device, _sample_buffer=buffer)

    def _remove_from_buffer(self, parts, X, y, sample_weight):
        """Remove samples from the buffer, and from the sums of a provisional layer."""
        X, y = self._validated_batch(X, y)
        y, weight = parts.target.validate_targets(X, y, sample_weight)
        raw, before = RawSamples(X, y, weight).without_zero_weights(), parts.target
        buffer, state = self._sample_buffer, self._incremental_state
        _check_batch(before, raw, buffer, state)
        left, target = buffer.remove(raw.copied()), before
        if left.parts and not buffer.has_classes:
            target = before.fit_classes([part.y for part in left.parts], None)
        has_same_target = before.has_same_classes(target)
        if left.parts and has_same_target and self._matches_state(parts):
            evaluate = Evaluator(self, parts.units)
            state = state.update_buffered(buffer, before, evaluate)
            samples = before.encode(raw.X, raw.y, raw.weight).without_zero_weights()
            state = state.remove(samples, evaluate)
            left = replace(left, n_summed=len(left))
            self._store_state(parts, state, evaluate.device, _sample_buffer=left)
        else:
            self._store_buffer(replace(parts, target=target), left, has_same_target=False)

    def _merge_buffer(
        self, parts: Parts, other: SampleBuffer, target: TargetSpec, name: str
    ) -> None:
        """Add the buffered samples of another model, whose classes `target` has, to the buffer."""
        buffer, both = self._sample_buffer, self._sample_buffer.merge(other)
        if buffer.has_classes and other.has_classes:
            parts.target.check_compatible(target, name)
        listed = target if other.has_classes else parts.target
        classes = listed.fitted.get("classes_") if both.has_classes else None
        targets = [part.y for part in both.parts]
        if targets:
            merged = parts.target.fit_classes(targets, classes)
            parts = replace(parts, target=merged)
        has_all_classes = partial(parts.target.has_all_classes, targets)
        if both.is_complete(parts.units, self.max_memory, has_all_classes):
            self._fix_layer(parts, both)
        else:
            self._store_buffer(parts, both, has_same_target=False)


def _check_batch(target, batch, buffer, state):
    """Raise ValueError if a batch cannot be encoded, as far as that is known."""
    if state is not None or target.fitted:
        target.encode(batch.X, batch.y, batch.weight)
    if buffer.parts and batch.y.shape[1:] != buffer.parts[0].y.shape[1:]:
        raise ValueError(
            f"y has shape {batch.y.shape}, but in the first call to partial_fit a sample of y had "
            f"the shape {buffer.parts[0].y.shape[1:]}."
        )


def _warn_of_one_class(units: Units, samples: Samples) -> None:
    """Warn if a layer was chosen for samples of one class."""
    codes = samples.targets.class_codes
    if codes is not None and is_buffered(units) and (codes == codes[0]).all():
        warn(
            "The samples from which the hidden layer is chosen are of one class, for which any "
            "layer would do, and the layer stays. Begin with samples of all classes, or pass a "
            "layer, as layer=FrozenEstimator(fitted)."
        )
