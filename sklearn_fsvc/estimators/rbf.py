"""What classifier and transformer of RBF units share: parameters, choice, rows outside."""

from ..layers import RBFLayer
from ..rows.streaming import Consumer, stream
from ..units.automatic import PART_OF_NATURAL
from ..units.rbf import RBFRequest, fit_layer, presentation_order


class RBFUnits:
    """A mixin: the layer is RBF units on selected training rows.

    Where they have a readout, ``_targets_of_units()`` is what each unit's own row should be
    answered with, an array of shape (n_units, n_scores).
    """

    _unit_attributes = ("centers_", "support_")
    _layer_needs_rows = _meets_rows_again = True
    # All activities may be 0.
    _rows_may_be_outside = True

    @property
    def _shared_parameters(self):
        sized, selects = self._size is not None, self.selection_radius is not None
        shared = {"alpha"}
        if sized and (selects or self.selection == "random"):
            shared.add("n_hidden")
        if sized or selects:  # else the radius selects the centres, too
            shared.add("radius")
        return shared

    @property
    def _part_of_natural(self):
        """How far ``radius="auto"`` goes from the selection radius to the natural radius."""
        return PART_OF_NATURAL

    @property
    def _request(self):
        return RBFRequest(
            self._size, self.radius, self.selection_radius, self.overlap, self.selection,
            self.metric, self.kernel, self.shuffle, self.random_state, self._part_of_natural,
        )  # fmt: skip

    def _check_layer(self):
        self._request.check(self._size_name)

    def _why_classes(self):
        needs = self.selection == "per_class"
        return ('selection="per_class"', '"global"') if needs else None

    def _present(self, samples):
        return samples.in_order(presentation_order(samples, self.shuffle, self.random_state))

    def _choose_layer(self, job, samples):
        groups = samples.targets.codes if self.selection == "per_class" else None
        layer, rows, radius = fit_layer(self._request, job, samples, groups)
        self.centers_, self.support_ = layer.units, rows
        self.radius_, self.selection_radius_ = layer.radius, radius
        return layer

    def _layer(self):
        return RBFLayer(self.centers_, self.radius_, self.metric, self.kernel)

    def _answer_outside(self, job, layer, X, rows, consume):
        """``consume(rows, scores)`` for rows that no unit answers: the nearest one does."""
        if not len(rows):
            return
        targets = self._targets_of_units()

        def answer(part, D):
            consume(rows[part], targets[job.engine.to_host(D.argmin(axis=1))])

        consumer = Consumer(answer, row_bytes=24 * (targets.shape[1] + 1))
        stream(job, layer.distances, X, consumer, rows)
