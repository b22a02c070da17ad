"""What classifier and transformer of RBF units share: parameters, choice, rows outside."""

from dataclasses import replace

from ..kernels import LAPLACIAN, TRIANGULAR, check_kernel, kernel_of, named
from ..layers import RBFLayer
from ..parameters import feature_weights, is_word
from ..rows.streaming import Consumer, stream
from ..units.automatic import PART_OF_NATURAL
from ..units.choice import UNITS, Wishes, choose, weighted
from ..units.rbf import RBFRequest, fit_layer, presentation_order


class RBFUnits:
    """A mixin: the layer is RBF units on selected training rows.

    Where they have a readout, ``_targets_of_units()`` is what each unit's own row should be
    answered with, an array of shape (n_units, n_scores).
    """

    _unit_attributes = ("centers_", "support_")
    _layer_needs_rows = _meets_rows_again = True
    _first_alpha = 0.1
    # All activities may be 0.
    _rows_may_be_outside = True
    # Whether kernel and feature weights may be "auto".
    _may_be_auto = False

    @property
    def _shared_parameters(self):
        sized, selects = self._size is not None, self.selection_radius is not None
        at_random = self.selection == "random"
        is_tried = is_word(self.kernel, "auto") or is_word(self.radius, "auto")
        shared = {"alpha"}
        if sized and (selects or at_random):
            shared.add("n_hidden")
        if (sized or selects) and not is_tried:
            shared.add("radius")  # else it selects the centres, too
            if at_random:
                shared.add("kernel")
        return shared

    @property
    def _choice_depends_on(self):
        """What of the number of units the choice of kernel and radius depends on."""
        is_given = not (is_word(self.kernel, "auto") or is_word(self.radius, "auto"))
        return None if is_given else min(self._size or UNITS, UNITS)

    @property
    def _is_tried(self):
        """Whether what is "auto" is found by held-out error."""
        return is_word(self.feature_weights, "learned")

    def _learns(self, dtype):
        """Whether feature weights are learned from rows of a dtype."""
        is_auto = is_word(self.feature_weights, "auto") and self._is_tried and dtype.kind == "f"
        return is_auto or is_word(self.feature_weights, "learned")

    @property
    def _kernels(self):
        """The kernels to choose from."""
        if not is_word(self.kernel, "auto"):
            return (kernel_of(self.kernel),)
        return (LAPLACIAN, TRIANGULAR) if self._is_tried else (TRIANGULAR,)

    def _given_weights(self, n_features=None):
        ways = ("learned", "auto") if self._may_be_auto else ("learned",)
        return feature_weights(self.feature_weights, ways, n_features)

    @property
    def _part_of_natural(self):
        """How far ``radius="auto"`` goes from the selection radius to the natural radius."""
        return PART_OF_NATURAL if self._kernels[-1].has_edge else 1.0

    @property
    def _request(self):
        return RBFRequest(
            self._size_name, self._size, self.radius, self.selection_radius, self.overlap,
            self.selection, self.metric, self._kernels[-1], self.shuffle, self.random_state,
            is_tried=self._is_tried, part_of_natural=self._part_of_natural,
        )  # fmt: skip

    def _check_layer(self):
        if not (self._may_be_auto and is_word(self.kernel, "auto")):
            check_kernel(self.kernel)
        self._request.check()
        self._given_weights()

    def _why_classes(self):
        if self.selection == "per_class":
            return 'selection="per_class"', '"global"'
        is_learned = is_word(self.feature_weights, "learned")
        return ('feature_weights="learned"', "None") if is_learned else None

    def _present(self, samples):
        return samples.in_order(presentation_order(samples, self.shuffle, self.random_state))

    def _choose_layer(self, job, samples, trials):
        X = samples.X
        given = self._given_weights(X.shape[1])
        request = replace(self._request, weights=given)
        groups = samples.targets.groups if self.selection == "per_class" else None
        layer, rows, selection_radius = fit_layer(request, job, samples, groups)
        self.centers_, self.support_, self.selection_radius_ = layer.units, rows, selection_radius
        kernel, self.radius_, self.feature_weights_ = layer.kernel, layer.radius, given
        if self._is_tried:
            radius = None if request.is_auto else layer.radius
            wishes = Wishes(self._kernels, radius, self._learns(X.dtype))
            found = choose(job, samples, request, wishes, self._random(), trials)
            kernel, self.radius_, self.feature_weights_ = found
        self.kernel_ = named(kernel)
        return self._layer()

    def _layer(self):
        layer = RBFLayer(self.centers_, self.radius_, self.metric, self.kernel_)
        return weighted(layer, self.feature_weights_)

    def _answer_outside(self, job, layer, X, rows, consume):
        """``consume(rows, scores)`` for rows that no unit answers: the nearest one does."""
        if not len(rows):
            return
        targets = self._targets_of_units()

        def answer(part, D):
            consume(rows[part], targets[job.engine.to_host(D.argmin(axis=1))])

        consumer = Consumer(answer, row_bytes=24 * (targets.shape[1] + 1))
        stream(job, layer.distances, X, consumer, rows)
