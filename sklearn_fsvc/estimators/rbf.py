"""What classifier and transformer of RBF units share: parameters, choice, rows outside."""

from dataclasses import replace

from ..kernels import LAPLACIAN, TRIANGULAR, check_kernel, kernel_of, named
from ..layers import RBFLayer
from ..parameters import is_word
from ..rows.streaming import Consumer, stream, suited
from ..units.automatic import PART_OF_NATURAL
from ..units.choice import UNITS, Wishes, choose, weighted
from ..units.rbf import fit_layer, presentation_order
from ..units.request import RBFRequest
from .given import centers_of, check_features, lender_of
from .weighing import WeighsFeatures


class RBFUnits(WeighsFeatures):
    """A mixin: the layer is RBF units on selected training rows.

    Where they have a readout, ``_targets_of_units()`` is what each unit's own row should be
    answered with, an array of shape (n_units, n_scores).
    """

    layer = None  # where it is no parameter
    _unit_attributes = ("centers_", "support_")
    # Fitted attributes of centres that were selected.
    _of_selection = ("support_", "selection_radius_", "center_labels_", "center_targets_")
    _layer_needs_rows = _meets_rows_again = True
    _first_alpha = 0.1

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

    @property
    def _kernels(self):
        """The kernels to choose from."""
        if not is_word(self.kernel, "auto"):
            return (kernel_of(self.kernel),)
        return (LAPLACIAN, TRIANGULAR) if self._is_tried else (TRIANGULAR,)

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

    @property
    def _rows_may_be_outside(self):
        """Whether all activities may be 0, and the targets of the centres' own rows are known."""
        return "support_" in vars(self)

    @property
    def _lender(self):
        """The estimator that lends its layer, if one does."""
        return None if self.layer is None else lender_of(self.layer, RBFUnits)

    def _check_layer(self):
        if not (self._may_be_auto and is_word(self.kernel, "auto")):
            check_kernel(self.kernel)
        request, lender = self._request, self._lender
        (request if self.layer is None else replace(request, selection="global")).check()
        self._given_weights()
        if lender is not None and lender.metric != self.metric:
            raise ValueError(
                f"metric={self.metric!r}, and the units of layer measure {lender.metric!r} "
                f"distances; set metric={lender.metric!r}."
            )

    def _why_classes(self):
        if self.selection == "per_class":
            return 'selection="per_class"', '"global"'
        is_learned = is_word(self.feature_weights, "learned")
        return ('feature_weights="learned"', "None") if is_learned else None

    def _present(self, samples):
        return samples.in_order(presentation_order(samples, self.shuffle, self.random_state))

    def _choose_layer(self, job, samples, trials):
        for name in self._of_selection:
            vars(self).pop(name, None)
        lender = self._lender
        if lender is not None:
            self.centers_, self.kernel_, self.radius_ = (
                lender.centers_,
                lender.kernel_,
                lender.radius_,
            )
            self.feature_weights_ = lender.feature_weights_
            return self._taken_for(samples.X)
        X = samples.X
        given = self._given_weights(X.shape[1])
        request = replace(self._request, weights=given)
        if self.layer is None:
            groups = samples.targets.groups if self.selection == "per_class" else None
            layer, self.support_, self.selection_radius_ = fit_layer(request, job, samples, groups)
            self.centers_, kernel, self.radius_ = layer.units, layer.kernel, layer.radius
        else:
            centers = centers_of(self.layer, X)
            dtype = replace(request, weights=None).dtype(centers)
            self.centers_ = centers.astype(dtype, copy=False)
            request = replace(request, n_units=len(self.centers_))
            kernel, self.radius_ = request.kernel, self.radius
        self.feature_weights_ = given
        if self._is_tried:
            radius = None if request.is_auto else self.radius_
            wishes = Wishes(self._kernels, radius, self._learns(X.dtype))
            found = choose(job, samples, request, wishes, self._random(), trials)
            kernel, self.radius_, self.feature_weights_ = found
        self.kernel_ = named(kernel)
        return self._layer() if self.layer is None else self._taken_for(X)

    def _taken_for(self, X):
        """The layer that was given, for rows like X."""
        check_features(self.centers_, X)
        return suited(self._layer(), X)

    def _layer(self):
        layer = RBFLayer(self.centers_, self.radius_, self.metric, self.kernel_)
        return weighted(layer, self.feature_weights_)

    def _answer_outside(self, job, layer, X, rows, consume):
        """``consume(rows, scores)`` for rows that no unit answers: the nearest one does."""
        if not (len(rows) and self._rows_may_be_outside):
            return
        targets = self._targets_of_units()

        def answer(rows, units):
            consume(rows, targets[units])

        self._stream_nearest(job, layer, X, rows, answer, 24 * targets.shape[1])

    def _stream_nearest(self, job, layer, X, rows, take, row_bytes=0):
        """``take(rows, units)`` with the nearest unit of each of some rows."""

        def nearest(part, D):
            take(rows[part], job.engine.to_host(D.argmin(axis=1)))

        if len(rows):
            stream(job, layer.distances, X, Consumer(nearest, row_bytes=24 + row_bytes), rows)
