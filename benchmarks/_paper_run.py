"""Common parts of the experiments: the engine, the layers, and the measurement of a cell."""

from dataclasses import dataclass, field
from functools import cached_property

from _paper_methods import Refused, ours, paper_kernel, paper_loop
from _paper_results import Results
from sklearn_fsvc._src.engines import known_engines
from sklearn_fsvc._src.engines.blas import ProductEngine
from sklearn_fsvc._src.engines.threads import n_threads

RBF, MUL = "manhattan triangular", "tanh"
_LAYERS = {RBF: "RBF", MUL: "MUL"}


@dataclass
class Run:
    """What all experiments of one call share.

    Attributes
    ----------
    engine : Engine or None
        Where ours is computed, entered; None stands for a GPU that there is not.
    quick : bool
        Smaller layers, fewer measurements.
    """

    engine: object
    quick: bool = False
    _base: dict = field(default_factory=dict)

    @property
    def is_gpu(self):
        return self.engine is None or self.engine.auto_work is not None

    @cached_property
    def device(self):
        return self.engine.identity()["device"] if self.engine else "none"

    @property
    def M(self):
        """A size at which this device is at its best, or not far from it."""
        return (1024 if self.quick else 2048) * (4 if self.is_gpu else 1)

    @property
    def n(self):
        return 256 if self.quick else 784

    def engines(self):
        """The engine, and where it is the host's, the others there."""
        if self.is_gpu:
            return [self.engine]
        on_host = (e() for e in known_engines().values() if e.auto_work is None)
        others = (e for e in on_host if e.name != self.engine.name)
        return [self.engine, *(e for e in others if e.why_unavailable() is None)]

    def methods(self, formula):
        """Ours by every engine, and the paper's kernel where there is a GPU."""
        methods = [
            ours(e) for e in self.engines() if formula == MUL or not isinstance(e, ProductEngine)
        ]
        return methods + ([paper_kernel(self.engine, 16)] if self.is_gpu else [])

    def base(self, kind, N, m, n):
        """t_syn of the paper's @jit loop in float32, measured once for each size."""
        key = kind.rpartition(" ")[0], N, m, n
        if key not in self._base:
            self._base[key] = paper_loop().t_syn(f"{key[0]} float32", N, m, n, self.quick)
        return self._base[key]

    def measure(self, results, method, kind, N, m, n, compare=True, **fields):
        """Add the cell of one method; the speed-up is over the paper's @jit loop."""
        formula, _, dtype = kind.rpartition(" ")
        cell = {
            "device": self.device, "layer": _LAYERS[formula], "method": method.name,
            "dtype": dtype, "N": N, "m": m, "n": n, "threads": n_threads(), **fields,
        }  # fmt: skip
        try:
            t_syn = method.t_syn(kind, N, m, n, self.quick)
        except Exception as error:  # the cell says which
            cell["error"] = str(error) if isinstance(error, Refused) else type(error).__name__
        else:
            speed_up = self.base(kind, N, m, n) / t_syn if compare else None
            cell |= {"seconds": t_syn * N * m * n, "t_syn_ps": t_syn * 1e12, "speed_up": speed_up}
        results.add(**cell)


@dataclass(frozen=True)
class Experiment:
    """A function ``fill(run, results)`` and what its results are called."""

    fill: object
    options: dict

    def __call__(self, run, command=""):
        results = Results(**self.options, command=command)
        self.fill(run, results)
        return results


EXPERIMENTS = {}


def experiment(name, title, column, paper="", values=("t_syn_ps", "speed_up")):
    """Put a function into EXPERIMENTS."""

    def register(fill):
        options = {"name": name, "title": title, "column": column, "values": values}
        EXPERIMENTS[name] = Experiment(fill, {**options, "paper": paper})
        return fill

    return register
