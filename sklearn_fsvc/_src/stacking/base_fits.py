"""The fits of all base estimators of a stacked ensemble, several at a time where that is faster.

A fit to some thousand samples is a sequence of hundreds of short loops, in which threads wait for
each other. With several networks at a time, each with a share of the threads, fewer of them wait.
"""

from typing import Any

from joblib import Parallel, delayed
from sklearn import config_context, get_config  # type: ignore[attr-defined]

from ..data.streaming import count_operations
from ..engines import get_engine
from ..engines.host import HostEngine
from ..engines.threads import limit_threads, n_threads
from ..estimators.fit_report import FitReport
from ..parts.composition import parts_of
from ..readouts.leave_one_out import HeldOutScores
from ..utils.callbacks import FitTask
from ..utils.user_warnings import context_for_thread
from .base_estimators import TrainingSet, is_dense, overrides_fit

# More samples keep all threads busy with one network, and the memory for a second one is large.
MAX_CONCURRENT_SAMPLES = 10_000


def fit_base_estimators(
    pairs: list[tuple[str, Any]], training_set: TrainingSet, fit_task: FitTask, report: FitReport
) -> list[HeldOutScores]:
    """Fit the (name, network) pairs in place; return the scores of `TrainingSet.fit` of each.

    The results do not depend on how many are fitted at a time.
    """
    chains = _chains(pairs)
    n_jobs = min(n_threads(), len(chains))
    if n_jobs > 1 and _may_be_concurrent(pairs, training_set, fit_task):
        return _fit_concurrently(pairs, chains, training_set, fit_task, n_jobs)
    learned_weights: dict[Any, Any] = {}
    left_out = []
    for number, (name, network) in enumerate(pairs, 1):
        report.begin(f"fitting {name}, network {number} of {len(pairs)}")
        left_out.append(training_set.fit(network, fit_task.subtask(name), learned_weights))
        report.time_stage(name)
    return left_out


def _chains(pairs):
    """Return lists of numbers of networks; those that share feature weights are in one list.

    The first one of a list learns the weights for all others.
    """
    chains: dict[Any, list[int]] = {}
    for number, (_, network) in enumerate(pairs):
        metric = parts_of(network).units.shared_metric
        chains.setdefault(number if metric is None else metric, []).append(number)
    return list(chains.values())


def _may_be_concurrent(pairs, training_set, fit_task):
    """Return whether networks may be fitted at the same time, and gain by it.

    Progress and callbacks report one network after another, a memory limit is meant for one, and
    devices other than the host have queues of their own.
    """
    X = training_set.samples.X
    if fit_task.context is not None or not is_dense(X) or len(X) > MAX_CONCURRENT_SAMPLES:
        return False
    work = count_operations(X, None)
    return all(_is_plain(network, work) for _, network in pairs)


def _is_plain(network, work):
    """Return whether nothing but time depends on when a network is fitted."""
    if overrides_fit(network) or network.verbose or network.max_memory is not None:
        return False
    return isinstance(get_engine(network.device, work), HostEngine)


def _fit_concurrently(pairs, chains, training_set, fit_task, n_jobs):
    left_out: dict[int, HeldOutScores] = {}
    threads, config = n_threads() // n_jobs, get_config()

    # `sklearn.utils.parallel.delayed` would propagate the configuration, too, but also the filters
    # of warnings, which it resets in all threads.
    def fit(chain):
        learned_weights: dict[Any, Any] = {}
        with limit_threads(threads), config_context(**config):
            for number in chain:
                name, network = pairs[number]
                subtask = fit_task.subtask(name)
                left_out[number] = training_set.fit(network, subtask, learned_weights)

    contexts = [context_for_thread() for _ in chains]
    Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(context.run)(fit, chain) for context, chain in zip(contexts, chains, strict=True)
    )
    return [left_out[number] for number in range(len(pairs))]
