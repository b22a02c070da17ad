"""Kernels that transpose matrices: one feature or hidden unit per line, small integers packed.

They are launched with a block of `side` x `lines` threads for each square of `side` x `side` output
elements. A square is read into shared memory, `lines` lines at a time, and written transposed, so
that both reads and writes access adjacent addresses.
"""

import numpy as np

from .kernel import cuda_kernel


@cuda_kernel
def pack_features(item, side, lines):
    """Kernel: samples to one line per item, padded with zeros.

    An item is a feature, or with ``item=uint32`` four adjacent uint8 features in one word. Launched
    with ``grid = (padded samples / side, items / side)`` rounded up.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, device, jit

    item = np.dtype(item).type
    is_bytes = item is np.uint32
    PITCH = side + 1  # odd, so that the elements of a column are in different memory banks

    @device
    def read(X, row, k):
        if is_bytes:
            word = np.uint32(0)
            for i in range(4):
                if 4 * k + i < X.shape[1]:
                    word |= np.uint32(X[row, 4 * k + i]) << np.uint32(8 * i)
            return word
        return item(X[row, k])

    @device
    def n_items(X):
        return (X.shape[1] + 3) // 4 if is_bytes else X.shape[1]

    @jit(side * lines)
    def kernel(X, packed):
        # X (samples, features) IN, packed (items, padded samples) OUT
        square = cuda.shared.array((side, PITCH), item)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        row0, k0 = cuda.blockIdx.x * side, cuda.blockIdx.y * side
        for j in range(side // lines):
            i = y + j * lines
            value = item(0)
            if row0 + i < X.shape[0] and k0 + x < n_items(X):
                value = read(X, row0 + i, k0 + x)
            square[i, x] = value
        cuda.syncthreads()
        for j in range(side // lines):
            i = y + j * lines
            if k0 + i < packed.shape[0] and row0 + x < packed.shape[1]:
                packed[k0 + i, row0 + x] = square[x, i]

    return kernel


@cuda_kernel
def pack_codes(dtype, n_planes, side, lines):
    """Kernel: quantised activations to one line of bytes per unit, four samples per word.

    The code of an activation is the integer ``r = scale * h - shift``. Its digits of base 256, from
    -128 to 127, are in as many planes, one after another; the highest digits are the first. Padding
    is 0. Launched with ``grid = (words / side, padded units / side)`` rounded up.
    """
    global cuda  # the simulator replaces this name in the kernel's globals
    from .language import cuda, device, jit

    PITCH = side + 1  # odd, so that the elements of a column are in different memory banks
    PLANES = n_planes
    dtype = np.dtype(dtype).type

    @device
    def digit(r, plane):
        # Without the lower digits: adding 128 rounds to the nearest multiple of 256.
        for _ in range(PLANES - 1 - plane):
            r = (r + np.int32(128)) >> np.int32(8)
        return np.uint32(r & np.int32(255))

    @jit(side * lines)
    def kernel(H, packed, scale, shift):
        # H (samples, units) IN, packed (planes * padded units, words) OUT
        square = cuda.shared.array((side, PITCH), np.uint32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        word0, unit0 = cuda.blockIdx.x * side, cuda.blockIdx.y * side
        units = packed.shape[0] // PLANES
        for plane in range(PLANES):
            for j in range(side // lines):
                i = y + j * lines
                word = np.uint32(0)
                for k in range(4):
                    row = 4 * (word0 + i) + k
                    if row < H.shape[0] and unit0 + x < H.shape[1]:
                        r = np.int32(scale * H[row, unit0 + x]) - np.int32(shift)
                        word |= digit(r, plane) << np.uint32(8 * k)
                square[i, x] = word
            cuda.syncthreads()
            for j in range(side // lines):
                i = y + j * lines
                if unit0 + i < units and word0 + x < packed.shape[1]:
                    packed[plane * units + unit0 + i, word0 + x] = square[x, i]
            cuda.syncthreads()

    return kernel
