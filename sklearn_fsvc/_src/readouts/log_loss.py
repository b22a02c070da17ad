"""The log-loss of scores of classes: its value, slope and curvature, row by row.

A group of scores belongs to one output: a softmax over all of its classes, or, of two classes,
one score whose logistic function is the probability of the second.
"""

from itertools import groupby

import numpy as np


class LogLoss:
    """Of several groups side by side.

    Parameters
    ----------
    sizes : sequence of int
        Classes of each output.
    """

    def __init__(self, sizes):
        self.sizes = tuple(sizes)
        self._groups, start = [], 0
        for is_pair, group in groupby(self.sizes, key=lambda size: size == 2):
            # Logistic functions of all neighbours are taken in one go.
            for width in [len(list(group))] if is_pair else group:
                self._groups.append((slice(start, start + width), is_pair))
                start += width
        self.n_scores = start
        first = np.cumsum([0, *self.sizes[:-1]])
        self.columns = np.concatenate(
            [[f + 1] if size == 2 else np.arange(f, f + size)
             for f, size in zip(first, self.sizes, strict=True)]
        )  # fmt: skip

    @classmethod
    def of(cls, targets):
        """For `ClassTargets`, or several of them."""
        return cls([part.n_outputs for part in getattr(targets, "parts", (targets,))])

    def wanted(self, targets, rows, xp):
        """What the probabilities of some rows should be, (rows, n_scores)."""
        return targets.matrix(rows, xp)[:, xp.asarray(self.columns)]

    def probabilities(self, S, xp):
        """The losses of rows but for the scores that are wanted, and the probabilities.

        Parameters
        ----------
        S : array of shape (rows, n_scores), float64
            Overwritten by the probabilities.

        Returns
        -------
        array of shape (rows,)
        """
        total = xp.zeros(len(S))
        for part, is_pair in self._groups:
            total += (_logistic if is_pair else _softmax)(S[:, part], xp)
        return total

    def spread(self, P, xp):
        """How unsure each row is, (rows,): the sum over the outputs of ``1 - sum p^2``."""
        total = xp.zeros(len(P))
        for part, is_pair in self._groups:
            p = P[:, part]
            total += (2 * p * (1 - p)).sum(axis=1) if is_pair else 1 - (p * p).sum(axis=1)
        return total

    def curve(self, P, U):
        """The second derivative by the scores times U, in the place of U."""
        for part, is_pair in self._groups:
            p, u = P[:, part], U[:, part]
            u *= p
            u -= p * (u if is_pair else u.sum(axis=1, keepdims=True))
        return U

    def of_classes(self, W):
        """A row for each class of a W with a row for each score: of two classes, half each."""
        rows = []
        for part, is_pair in self._groups:
            w = W[part]
            rows += [half for row in w for half in (-row / 2, row / 2)] if is_pair else list(w)
        return rows

    def of_scores(self, W):
        """The other way round: a row for each score."""
        ends = np.cumsum(self.sizes)[:-1].tolist()
        starts = [0, *ends]
        rows = []
        for start, size in zip(starts, self.sizes, strict=True):
            own = [W[start + i] for i in range(size)]
            rows += [own[1] - own[0]] if size == 2 else own
        return rows


def _softmax(S, xp):
    most = S.max(axis=1, keepdims=True)
    S -= most
    xp.exp(S, out=S)
    total = S.sum(axis=1, keepdims=True)
    S /= total
    return (most + xp.log(total))[:, 0]


def _logistic(S, xp):
    small = xp.exp(-xp.abs(S))
    loss = (xp.maximum(S, 0) + xp.log1p(small)).sum(axis=1)
    S[...] = xp.where(S >= 0, 1.0, small) / (1 + small)
    return loss
