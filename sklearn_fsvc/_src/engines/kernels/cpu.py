"""Compiled loops of the jit engine: tiles of H, row sums, table look-ups, gradients, patches.

Every loop releases the GIL and is kept in numba's cache on disk: see `compiling`. Each loop has one
signature: it serves one dtype, and X is always passed as read-only. numba numbers the signatures of
a function in its cache, and two processes that compile different ones at the same time may give
both the same number; then each would run the code of the other, and silently compute nonsense.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from .compiling import FLOATS, jit, named
from .simd import block
from .target import CHUNK, Target

# Placeholders for the rows of a block and the block, which `kernel` sets in copies of `_tile_loop`.
ROWS: int = 1
BLOCK: Any = None


def _tile_loop(X, panels, begin, end, rows, units, epilogue, out, tile, totals):
    """Evaluate the panels `begin` to `end` for all rows, tile by tile, block by block.

    The arguments are those of a block: see `simd`. A tile is `tile_rows` rows and `tile_panels`
    panels, of which `step` items are summed at a time, so that panels and rows are read from the
    cache except for the first time. `totals` has a slot for each block of rows of a tile. The
    caller allocates it, and minima are written out, because numba takes long to compile each
    function that is called.
    """
    tile_rows, tile_panels, step = tile
    n_rows, n_items = X.shape
    for first_panel in range(begin, end, tile_panels):
        last_panel = first_panel + tile_panels if first_panel + tile_panels < end else end
        for first in range(0, n_rows, tile_rows):
            last = first + tile_rows if first + tile_rows < n_rows else n_rows
            for p in range(first_panel, last_panel):
                for k in range(0, n_items, step):
                    stop = k + step if k + step < n_items else n_items
                    for i in range(first, last, ROWS):
                        valid = last - i if last - i < ROWS else ROWS
                        BLOCK(
                            X, i, valid, panels, p, rows, units, epilogue, out, k, stop, totals,
                            (i - first) // ROWS,
                        )  # fmt: skip


@cache
def kernel(name: str, item: np.dtype, shape: tuple[int, int], target: Target) -> Any:
    """Return the compiled tile loop over blocks of one kind and shape, for items of one dtype.

    It is a copy of `_tile_loop` with a name of its own, which keeps it apart in numba's cache and
    for the linker: of two kernels with one name that are loaded from the cache, both would run the
    first one. As a closure over the block it could not be cached, since numba compares closures by
    the identity of what they contain.
    """
    full_name = f"{name}_{item}_{shape[0]}x{shape[1]}_{target.tag}"
    loop = named(_tile_loop, full_name, ROWS=shape[0], BLOCK=block(name, shape, target))
    return jit(loop)


@jit
def bytes_portable(X, panels, begin, end, rows, units, epilogue, out, tile, totals):
    """Manhattan distances of bytes by a plain loop, for processors without a byte instruction.

    The arguments are those of `_tile_loop`, some of which it does not need.
    """
    _, scale, offset, floor, _ = epilogue
    lanes = panels.shape[2]
    sums = np.empty(lanes, np.int32)
    for i in range(len(X)):
        for p in range(begin, end):
            sums[:] = 0
            for k in range(X.shape[1]):
                x = np.int32(X[i, k])
                for lane in range(lanes):
                    sums[lane] += abs(x - np.int32(panels[p, k, lane]))
            for lane in range(min(lanes, out.shape[1] - p * lanes)):
                h = scale * np.float32(sums[lane]) + offset[p, lane]
                out[i, p * lanes + lane] = max(floor, h)


def _look_up(table, step, first, last, out):
    """Replace the integers in columns of `out` by ``step * table[integer]``, in place."""
    end = np.float32(len(table) - 1)
    for i in range(len(out)):
        for j in range(first, last):
            entry = out[i, j] if out[i, j] < end else end
            out[i, j] = step * np.float32(table[np.uint32(entry)])


look_up_uint8, look_up_uint16 = (jit(named(_look_up, f"look_up_{t}")) for t in ("uint8", "uint16"))


@jit
def byte_sums(X, out):
    """Write the sum of each row of bytes to `out`, an array of int32, in which it is exact."""
    for i in range(len(X)):
        total = np.int32(0)
        for k in range(X.shape[1]):
            total += np.int32(X[i, k])
        out[i] = total


@jit
def fingerprint(words, out):
    """Hash the columns of words of 32 bits (n, lanes): a polynomial modulo 2^32 for each.

    The multiplier is odd, so a change of one word always changes the hash of its column.
    """
    for i in range(words.shape[0]):
        for j in range(words.shape[1]):
            out[j] = out[j] * np.uint32(0x9E3779B1) + words[i, j]


def _sums(X, sums, absolute_sums):
    """Write the sum of each row, and that of its absolute values.

    The sums are rounded exactly as `simd` rounds sum min(x, x), so that the distance of a row to
    itself is exactly 0. Four rows at a time, since each sum is a chain of dependent additions; if
    fewer are left, the last row is summed several times.
    """
    zero = X.dtype.type(0)
    last = len(X) - 1
    for i in range(0, len(X), 4):
        r1 = i + 1 if i + 1 < last else last
        r2 = i + 2 if i + 2 < last else last
        r3 = i + 3 if i + 3 < last else last
        t0 = t1 = t2 = t3 = zero
        a0 = a1 = a2 = a3 = zero
        for start in range(0, X.shape[1], CHUNK):
            stop = start + CHUNK if start + CHUNK < X.shape[1] else X.shape[1]
            s0 = s1 = s2 = s3 = zero
            for k in range(start, stop):
                x0, x1, x2, x3 = X[i, k], X[r1, k], X[r2, k], X[r3, k]
                s0 += x0
                s1 += x1
                s2 += x2
                s3 += x3
                a0 += abs(x0)
                a1 += abs(x1)
                a2 += abs(x2)
                a3 += abs(x3)
            t0 += s0
            t1 += s1
            t2 += s2
            t3 += s3
        sums[i], sums[r1], sums[r2], sums[r3] = t0, t1, t2, t3
        absolute_sums[i], absolute_sums[r1] = a0, a1
        absolute_sums[r2], absolute_sums[r3] = a2, a3


sums_float32, sums_float64 = (jit(named(_sums, f"sums_{t}")) for t in FLOATS)


def _square_gradients(is_manhattan, X, units, slopes, W, buffer, out):
    """`gradients.squared_gradients`; W has a multiple of four rows, `buffer` is (2, n_units).

    The directions times slopes of two features stay in the cache (`buffer`), and are multiplied
    with four outputs at a time, so that eight vectors of sums are in registers.
    """
    n_features, n_units = units.shape
    zero = X.dtype.type(0)
    for i in range(len(X)):
        for k in range(0, n_features, 2):
            last = k + 1 if k + 1 < n_features else k  # the last of an odd number, twice
            for side in range(2):
                feature = last if side else k
                x = X[i, feature]
                if is_manhattan:
                    for j in range(n_units):
                        c, slope = units[feature, j], slopes[i, j]
                        buffer[side, j] = slope if x > c else (-slope if x < c else zero)
                else:
                    for j in range(n_units):
                        buffer[side, j] = slopes[i, j] * (x - units[feature, j])
            total = total_of_last = 0.0
            for o in range(0, len(W), 4):
                a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
                for j in range(n_units):
                    a, b = buffer[0, j], buffer[1, j]
                    w0, w1, w2, w3 = W[o, j], W[o + 1, j], W[o + 2, j], W[o + 3, j]
                    a0 += a * w0
                    a1 += a * w1
                    a2 += a * w2
                    a3 += a * w3
                    b0 += b * w0
                    b1 += b * w1
                    b2 += b * w2
                    b3 += b * w3
                for s, t in ((a0, b0), (a1, b1), (a2, b2), (a3, b3)):
                    total += np.float64(s) * np.float64(s)
                    total_of_last += np.float64(t) * np.float64(t)
            out[i, k], out[i, last] = total, total_of_last


# With fastmath, LLVM may reorder the sums, and therefore vectorise them.
square_gradients_float32, square_gradients_float64 = (
    jit(named(_square_gradients, f"square_gradients_{t}"), fastmath=True) for t in FLOATS
)


def _sum_differences(X, units, M, out):
    """`gradients.difference_sums`."""
    n_features, n_units = units.shape
    for i in range(len(X)):
        for k in range(n_features):
            x, total = X[i, k], X.dtype.type(0)
            for j in range(n_units):
                total += M[i, j] * abs(x - units[k, j])
            out[i, k] = total


sum_differences_float32, sum_differences_float64 = (
    jit(named(_sum_differences, f"sum_differences_{t}"), fastmath=True) for t in FLOATS
)


# Patches of images: see `engines.patches`.


def _unfold(X, line, is_normalised, floor, stride, P):
    """Write the patches of X (images, rows, pixels * channels) to P (images, down, across, inputs).

    A row of a patch has `line` values, pixels * channels. `stride` is the distance between
    neighbouring patches: in rows, and in values of a row.
    """
    n_images, down, across, n_inputs = P.shape
    for i in range(n_images):
        for y in range(down):
            for x in range(across):
                patch, left = P[i, y, x], x * stride[1]
                for k in range(n_inputs // line):
                    row = X[i, y * stride[0] + k]
                    for j in range(line):
                        patch[k * line + j] = row[left + j]
                if is_normalised:
                    _normalise(patch, floor)


@njit(nogil=True, fastmath=True)
def _normalise(patch, floor):
    """`engines.patches.normalise` for one patch."""
    one = patch.dtype.type(1)
    n = patch.dtype.type(len(patch))
    total = squares = patch.dtype.type(0)
    for k in range(len(patch)):
        total += patch[k]
    mean = total / n
    for k in range(len(patch)):
        patch[k] -= mean
        squares += patch[k] * patch[k]
    scale = np.sqrt(squares / n + floor)
    factor = one / scale if scale > 0 else one
    for k in range(len(patch)):
        patch[k] *= factor


def _average(A, response, threshold, edges_down, edges_across, H):
    """Average A (images, down, across, units) over cells: H (images, units, sides, cells).

    `response` is an index of `layers.RESPONSES`: 1 is "below mean", 2 is "two-sided".
    """
    n_units = A.shape[3]
    above, below = np.empty(n_units, A.dtype), np.empty(n_units, A.dtype)
    n_across = len(edges_across) - 1
    zero = A.dtype.type(0)
    for i in range(len(A)):
        for cell in range(H.shape[3]):
            top, left = cell // n_across, cell % n_across
            n_positions = 0
            above[:] = zero
            below[:] = zero
            for y in range(edges_down[top], edges_down[top + 1]):
                for x in range(edges_across[left], edges_across[left + 1]):
                    n_positions += 1
                    _add_responses(A[i, y, x], response, threshold, above, below)
            factor = A.dtype.type(1) / A.dtype.type(n_positions)
            for j in range(n_units):
                H[i, j, 0, cell] = above[j] * factor
            if response == 2:
                for j in range(n_units):
                    H[i, j, 1, cell] = below[j] * factor


@njit(nogil=True, fastmath=True)
def _add_responses(a, response, threshold, above, below):
    """Add the responses to the activations `a` of all units at one position."""
    zero = a.dtype.type(0)
    n_units = len(a)
    if response == 2:
        for j in range(n_units):
            above[j] += max(a[j] - threshold, zero)
            below[j] += max(-a[j] - threshold, zero)
    elif response == 1:
        mean = zero
        for j in range(n_units):
            mean += a[j]
        mean /= a.dtype.type(n_units)
        for j in range(n_units):
            above[j] += max(mean - a[j], zero)
    else:
        for j in range(n_units):
            above[j] += a[j]


unfold_float32, unfold_float64, average_float32, average_float64 = (
    jit(named(function, f"{name}_{dtype}"), fastmath=True)
    for name, function in (("unfold", _unfold), ("average", _average))
    for dtype in FLOATS
)
