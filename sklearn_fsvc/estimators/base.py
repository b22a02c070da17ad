"""What all faces of a hidden layer are: validate, choose the layer, stream. Knows no classes."""

from abc import ABCMeta, abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..callbacks import Observable, with_callbacks
from ..documentation import Documented
from ..engines import get_engine
from ..engines.news import told
from ..parameters import check_level
from ..rows.blocks import open_all
from ..rows.job import Job
from ..rows.sources.base import as_taken
from ..rows.streaming import n_synapses, suited
from ..rows.validation import check_rows
from .state import Versioned
from .turns import changed, twin_of


class HiddenLayerEstimator(Documented, Versioned, Observable, BaseEstimator, metaclass=ABCMeta):
    """One hidden layer that is not trained.

    How a layer of its kind is chosen is said by a mixin, `RBFUnits` or `TanhUnits`.

    Attributes
    ----------
    _size_name : str
        Name of the parameter that says how many units.
    _first_alpha : float
        The ridge penalty with which a search for one begins.
    """

    _size_name: str
    _first_alpha: float

    @abstractmethod
    def _check_layer(self):
        """Raise for a parameter of the layer that cannot be used."""

    @abstractmethod
    def _choose_layer(self, job, samples, trials):
        """The hidden layer; sets the fitted attributes that describe it.

        `Trials` take in what is tried for it.
        """

    @abstractmethod
    def _layer(self):
        """The layer that the fitted attributes describe."""

    @abstractmethod
    def _fit_on(self, job, X, y, sample_weight):
        """`fit` once an engine is entered."""

    def _check_parameters(self):
        """Raise for a constructor parameter that cannot be used."""
        self._check_layer()
        check_level("verbose", self.verbose)

    def _present(self, samples):
        """The samples with the order of their presentation, if it matters."""
        return samples

    @property
    def _size(self):
        return getattr(self, self._size_name)

    @property
    def _width(self):
        """Columns of H, where they are known before there are rows."""
        return self._size

    def _random(self):
        """Numbers for what is chosen by held-out error: the same ones for the same seed."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _fit(self, X, y, sample_weight=None):
        changed(self, lambda model: model._fit_told(X, y, sample_weight))
        return self

    def _as_it_stands(self):
        """This estimator at this moment, whatever other threads make of it."""
        return twin_of(self)

    @with_callbacks  # within `changed`, which would forget who is to be told
    def _fit_told(self, X, y, sample_weight):
        self._check_parameters()
        task = self._begin_fit(X, y, sample_weight)
        rows = self._open(X, y, sample_weight)
        work = n_synapses(rows[0], self._width)
        with self._told("fit"), get_engine(self.device, work) as engine:
            self._fit_on(replace(self._job(engine, "fit"), task=task), *rows)
        self._end_fit(task, X, y, sample_weight)

    def _told(self, phase):
        """Context in which what is compiled is printed, if `verbose` asks for it."""
        if not self.verbose:
            return nullcontext()
        return told(lambda what: print(f"[{type(self).__name__} {phase}] compiling {what}"))

    def _open(self, X, y=None, sample_weight=None):
        """What the user gave, with X as a `Source` if it is one."""
        return open_all(X, self.device, self.max_memory, y, sample_weight)

    def _hidden_dtype(self, dtype):
        """dtype of H for rows of a dtype."""
        return suited(self._layer(), np.empty((0, 0), as_taken(dtype, "X"))).hidden_dtype

    def _job(self, engine, phase):
        what = f"{type(self).__name__} {phase}"
        return Job(engine, self.max_memory, self.verbose, what)

    @contextmanager
    def _asked(self, X, phase):
        """What it takes to answer for rows: a job with its engine, the layer, clean rows."""
        check_is_fitted(self)
        layer, (X, *_) = self._layer(), self._open(X)
        with get_engine(self.device, n_synapses(X, layer.n_units)) as engine:
            X = check_rows(self, engine, X, reset=False)
            yield self._job(engine, phase), suited(layer, X), X
