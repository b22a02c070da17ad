"""Rows so large that sums of their products with weights are no numbers: refused.

A distance that overflows is infinite, and kernels know what to answer. A sum of products may come
to infinity less infinity, which is NaN.
"""

import numpy as np

from ..layers import LinearLayer, RBFLayer


class NotNumbers(Exception):
    """Some of the answers to a tile of rows are NaN."""


def check_numbers(values, xp=np):
    """Raise `NotNumbers` if there is a NaN in an array of `xp` that is in one piece."""
    values = values.T if values.flags.f_contiguous else values
    total = float(xp.vdot(values, values))
    if total != total:
        raise NotNumbers


def check_hidden(layer, H, xp):
    """`check_numbers` of H of a tile of rows, where engines do not see to it themselves."""
    is_mended = xp is np and isinstance(layer, LinearLayer) and layer.has_finish
    if not (is_mended or isinstance(layer, RBFLayer)):
        check_numbers(H, xp)


def largest_of(block, numbers):
    """(size of the largest number in some rows of the host, its row, its column).

    `numbers` is the number of the first row, or those of all.
    """
    row, column = np.unravel_index(np.abs(block).argmax(), block.shape)
    number = numbers + row if np.ndim(numbers) == 0 else numbers[row]
    return float(abs(block[row, column])), int(number), int(column)


def why_no_numbers(layer, size, row, column):
    """The sentence for rows some of whose outputs are no numbers, and what is largest in them."""
    return (
        f"X holds {size:.3g} in row {row}, column {column}: sums of such "
        f"numbers with weights of the hidden units are no numbers of {layer.units.dtype}. Scale "
        "the features of X (StandardScaler, fitted with the model), or give float64."
    )
