"""Manhattan distances on GPUs, by a kernel in Triton's language.

Triton comes with PyTorch for GPUs of NVIDIA, AMD and Intel on Linux. It compiles a kernel at its
first launch, in about a second, and stores it on disk.
"""

from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch

# No package that this one could name: each build of PyTorch has a build of it.
triton, tl = import_module("triton"), import_module("triton.language")

# Samples and units of a block, and the warps that share it.
_ROWS, _UNITS, _WARPS = 64, 64, 4


@triton.jit
def _add_differences(  # type: ignore[no-untyped-def]
    X, C, out, n_rows, n_units, n_features, line,
    ROWS: tl.constexpr, UNITS: tl.constexpr, PART: tl.constexpr,  # type: ignore[name-defined]
):  # fmt: skip
    """Write a block of ``sum_k |X[k, i] - C[k, j]|``; `line` elements of `out` are a row."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    j = tl.program_id(1) * UNITS + tl.arange(0, UNITS)[None, :]
    is_row, is_unit = i < n_rows, j < n_units
    x, c = X + i, C + j
    total = tl.zeros((ROWS, UNITS), out.dtype.element_ty)
    for start in range(0, n_features, PART):
        part = tl.zeros((ROWS, UNITS), out.dtype.element_ty)
        for _ in range(start, min(start + PART, n_features)):
            part += tl.abs(tl.load(x, is_row, 0) - tl.load(c, is_unit, 0))
            x += n_rows
            c += n_units
        total += part
    tl.store(out + i.to(tl.int64) * line + j, total, is_row & is_unit)


def manhattan(
    X: torch.Tensor, C: torch.Tensor, H: torch.Tensor, features_per_sum: int = 1024
) -> None:
    """Write the distances of samples and units to H, whose rows are contiguous."""
    grid = triton.cdiv(len(X), _ROWS), triton.cdiv(len(C), _UNITS)
    kind = H.device.type
    # Triton launches on the current device.
    with nullcontext() if kind == "cpu" else getattr(torch, kind).device(H.device):
        _add_differences[grid](
            X.T.contiguous(), C.T.contiguous(), H, len(X), len(C), X.shape[1], H.stride(0),
            ROWS=_ROWS, UNITS=_UNITS, PART=features_per_sum, num_warps=_WARPS,
            enable_fp_fusion=False,
        )  # fmt: skip


def check(device: Any) -> str | None:
    """Return None if the kernel is right on a device, else the reason."""
    X, H = torch.eye(3, 2, device=device), torch.full((3, 3), -1.0, device=device)
    manhattan(X, X, H)
    is_right = H.cpu().equal(torch.tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    return None if is_right else "its kernel is wrong"
