"""Common parts of the experiments: the engine, the layers, and the measurement of a cell."""

from dataclasses import dataclass, field
from functools import cached_property

from _paper_methods import LOOP_SYNAPSES, Refused, ours, paper_kernel, paper_loop
from _paper_results import Results
from sklearn_fsvc._src.engines import known_engines
from sklearn_fsvc._src.engines.blas import ProductEngine
from sklearn_fsvc._src.engines.threads import n_threads
from sklearn_fsvc._src.tuning import medians

RBF, MUL = "manhattan triangular", "tanh"
_LAYERS = {RBF: "RBF", MUL: "MUL"}


@dataclass
class Run:
    """The engine, sizes and timer of the experiments of one call.

    Attributes
    ----------
    engine : Engine or None
        Computes our layers, entered; None for a missing GPU.
    quick : bool
        Smaller layers, fewer measurements.
    """

    engine: object
    quick: bool = False
    _base: dict = field(default_factory=dict)

    # Values of M; the experiments add one that is too large for any memory.
    sizes = (256, 512, 1024, 2048, 4096, 8192)
    loop_synapses = LOOP_SYNAPSES
    timer = staticmethod(medians)

    @property
    def is_gpu(self):
        return self.engine is None or self.engine.auto_work is not None

    @cached_property
    def device(self):
        return self.engine.identity()["device"] if self.engine else "none"

    @property
    def M(self):
        """Return a size at which this device is close to its peak performance."""
        return (1024 if self.quick else 2048) * (4 if self.is_gpu else 1)

    @property
    def n(self):
        return 256 if self.quick else 784

    def engines(self):
        """Return the engine, and if it is on the host, the other ones there."""
        if self.is_gpu:
            return [self.engine]
        on_host = (e() for e in known_engines().values() if e.auto_work is None)
        others = (e for e in on_host if e.name != self.engine.name)
        return [self.engine, *(e for e in others if e.why_unavailable() is None)]

    def methods(self, formula):
        """Return ours by every engine, and on a GPU the paper's kernel."""
        methods = [
            ours(e) for e in self.engines() if formula == MUL or not isinstance(e, ProductEngine)
        ]
        return methods + ([paper_kernel(self.engine, 16)] if self.is_gpu else [])

    def base(self, kind, N, m, n):
        """Return t_syn of the paper's @jit loop in float32, measured once per size."""
        key = kind.rpartition(" ")[0], N, m, n
        if key not in self._base:
            loop, kind = paper_loop(self.loop_synapses), f"{key[0]} float32"
            self._base[key] = loop.t_syn(kind, N, m, n, self.quick, self.timer)
        return self._base[key]

    def measure(self, results, method, kind, N, m, n, compare=True, **fields):
        """Add the cell of one method; its speed-up is relative to the paper's @jit loop."""
        formula, _, dtype = kind.rpartition(" ")
        cell = {
            "device": self.device, "layer": _LAYERS[formula], "method": method.name,
            "dtype": dtype, "N": N, "m": m, "n": n, "threads": n_threads(), **fields,
        }  # fmt: skip
        try:
            t_syn = method.t_syn(kind, N, m, n, self.quick, self.timer)
        except Exception as error:  # reported in the cell
            cell["error"] = str(error) if isinstance(error, Refused) else type(error).__name__
        else:
            speed_up = self.base(kind, N, m, n) / t_syn if compare else None
            cell |= {"seconds": t_syn * N * m * n, "t_syn_ps": t_syn * 1e12, "speed_up": speed_up}
        results.add(**cell)


@dataclass(frozen=True)
class Experiment:
    """A function ``fill(run, results)``, and the options of its results."""

    fill: object
    options: dict

    def __call__(self, run, command=""):
        results = Results(**self.options, command=command)
        self.fill(run, results)
        return results


EXPERIMENTS = {}


def experiment(name, title, column, paper="", values=("t_syn_ps", "speed_up")):
    """Register a function in EXPERIMENTS."""

    def register(fill):
        options = {"name": name, "title": title, "column": column, "values": values}
        EXPERIMENTS[name] = Experiment(fill, {**options, "paper": paper})
        return fill

    return register
