"""The paper's GPU kernel: see `_paper_2017`. It is compiled when it is first launched."""

from _paper_2017 import finish, term
from sklearn_fsvc._src.engines.kernels.cuda.kernel import cuda_kernel


@cuda_kernel
def kernel(formula, is_integer):
    """Kernel: one thread per output, launched with blocks of B x B threads."""
    global cuda  # the simulator replaces this name in the kernel's globals
    from sklearn_fsvc._src.engines.kernels.cuda.language import cuda, device

    add, end = device(term(formula, is_integer)), device(finish(formula))

    @cuda.jit
    def fill(X, units, H, parameter):
        # X (n, N) IN, units (n, m) IN, H (N, m) OUT
        i, j = cuda.grid(2)
        if i < H.shape[0] and j < H.shape[1]:
            total = 0.0
            for k in range(X.shape[0]):
                total += add(X[k, i], units[k, j])
            H[i, j] = end(total, parameter)

    return fill
