"""Which candidates of a search share their work.

The statistics of a network contain those of every smaller one as a leading block, and
serve every penalty, one that is to be found too; the distances behind RBF units serve every
kernel and radius that are given. So candidates that differ in nothing else are one group, as
long as smaller networks are prefixes of larger, on the same centres.
"""

from dataclasses import dataclass, field

from sklearn.base import clone

from ..estimators.online import Online
from ..estimators.parts import parts_of
from ..parameters import is_word
from .wrappers import last_step, prefix_of


@dataclass
class Group:
    """Candidates that differ in the size of the hidden layer, the penalty, kernel or radius."""

    # Not fitted, with the parameters that all have, and the largest of the sizes.
    estimator: object
    # Number of the candidate -> its parameters n_hidden, alpha, and kernel and radius if it has
    # them.
    members: dict = field(default_factory=dict)

    def add(self, candidate, estimator):
        """Take a candidate in, with its own estimator."""
        network, widest = last_step(estimator), last_step(self.estimator)
        if (network.n_hidden or 0) > (widest.n_hidden or 0):
            widest.set_params(n_hidden=network.n_hidden)
        names = {"n_hidden", "alpha", "kernel", "radius"} & set(network.get_params(deep=False))
        self.members[candidate] = {name: getattr(network, name) for name in names}

    @property
    def shapes(self):
        """(kernel, radius) that occur, each once; (None, None) for units that have none."""
        return list(dict.fromkeys(map(_shape, self.members.values())))

    @property
    def has_auto(self):
        """Whether there are penalties to be found by held-out error."""
        return any(is_word(p["alpha"], "auto") for p in self.members.values())

    @property
    def smallest_alpha(self):
        """Return the smallest penalty that is given; infinity where none is."""
        given = (p["alpha"] for p in self.members.values() if not is_word(p["alpha"], "auto"))
        return min(map(float, given), default=float("inf"))

    def of_shape(self, shape, layer):
        """(columns of the layer, alpha, candidate) of the members with a shape."""
        return [
            (layer.width_of(p["n_hidden"]), p["alpha"], candidate)
            for candidate, p in self.members.items()
            if _shape(p) == shape
        ]


def _shape(parameters):
    return parameters.get("kernel"), parameters.get("radius")


def group_candidates(base, candidates):
    """Return the `Group` of candidates that share something.

    Those in none of them have a network whose readout is not one ridge, or that cannot be fitted
    at all.
    """
    prefix, groups = prefix_of(base), {}
    for number, parameters in enumerate(candidates):
        estimator = clone(base).set_params(**clone(parameters, safe=False))
        network = last_step(estimator)
        if not _has_one_ridge(network):
            continue
        sharing = parts_of(network).units.sharing
        shared = frozenset(prefix + name for name in sharing.parameters)
        fixed = (name for name in sorted(parameters) if name not in shared)
        values = ((name, _identity(parameters[name])) for name in fixed)
        key = shared, sharing.key, *values
        if key not in groups:
            groups[key] = Group(clone(estimator))
        groups[key].add(number, estimator)
    return list(groups.values())


def is_network(estimator):
    """Whether it is a classifier or regressor that is put together from parts."""
    return isinstance(estimator, Online)


def _has_one_ridge(network):
    """Whether to fit the network is to solve one ridge problem of one layer."""
    if is_changed(type(network)):
        return False  # what it does is its own
    parts = parts_of(network)
    try:
        parts.check()
    except (TypeError, ValueError):
        return False  # its own fit will say so
    if parts.units.given is not None:
        return False  # its size is not that of the parameters
    return parts.readout.is_ridge and not parts.readout.leaves_one_out(parts.task)


def is_changed(kind):
    """Whether a class does anything in another way than the one that names its parts."""
    own = next((c for c in kind.__mro__ if "_parts" in vars(c)), object)
    above = kind.__mro__[: kind.__mro__.index(own)]
    # scikit-learn gives each class set_..._request of its own.
    names = (n for c in above for n in vars(c) if not n.startswith(("__", "_abc_", "set_")))
    return not issubclass(own, Online) or any(hasattr(own, name) for name in names)


def _identity(value):
    """Numbers and strings are equal by value, other objects if they are the same one."""
    simple = value is None or isinstance(value, (str, bytes, bool, int, float))
    return (type(value).__name__, value) if simple else ("object", id(value))
