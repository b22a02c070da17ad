"""The processor that numba compiles for: its vectors, its byte instructions, and block shapes."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from llvmlite import binding
from numba.core.registry import cpu_target

# LLVM selects the dot product instruction of Arm for this function if the processor has it. The
# feature strings cannot be used instead: for the host they are incomplete, while LLVM derives the
# instructions from the name of the processor.
_DOT_PRODUCT = """
define i32 @sum(<16 x i8> %a, <16 x i8> %b) {
  %x = zext <16 x i8> %a to <16 x i32>
  %y = zext <16 x i8> %b to <16 x i32>
  %products = mul <16 x i32> %x, %y
  %total = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %products)
  ret i32 %total
}
declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
"""

# Items that are summed before the partial sum is added to the total (pairwise summation, in one
# level): this bounds the rounding error of float32 sums over many features.
CHUNK = 512
# For fewer features than these, wide blocks are faster, as they write longer contiguous runs of H.
_FEW_FEATURES = 64
# AMD's Zen 4 executes 64-byte vectors in two halves, so its loads are not a bottleneck.
_HALF_RATE = "znver4"


@dataclass(frozen=True)
class Target:
    """The properties of a processor on which the emitted code depends.

    Attributes
    ----------
    width : int
        Bytes of a vector.
    fma : bool
        Whether there is a fused multiply-add.
    byte_instruction : str
        How absolute differences of bytes are summed: "vnni" (AVX-512 VNNI or AVX-VNNI), "udot"
        (dot products of Arm), "sad" (psadbw), or "portable" (a scalar loop).
    is_arm : bool
        Whether it is a 64-bit Arm processor.
    processor : str
        LLVM's name of the microarchitecture.
    """

    width: int
    fma: bool
    byte_instruction: str
    is_arm: bool = False
    processor: str = "generic"

    @classmethod
    def from_llvm(cls, triple: str, processor: str, features: str) -> "Target":
        """Return the target for LLVM's names and features, such as "+avx2,-avx512f"."""
        if triple.startswith(("aarch64", "arm64")):
            instruction = _arm_instruction(triple, processor, features)
            return cls(16, True, instruction, is_arm=True, processor=processor)
        has = {f[1:] for f in features.split(",") if f.startswith("+")}
        x86 = triple.startswith(("x86_64", "i686"))
        width = 64 if {"avx512f", "avx512bw"} <= has else 32 if "avx2" in has else 16
        vnni = {64: "avx512vnni", 32: "avxvnni"}.get(width) in has
        instruction = "portable" if not x86 else "vnni" if vnni else "sad"
        return cls(width, "fma" in has or not x86, instruction, processor=processor)

    @property
    def tag(self) -> str:
        """A name that distinguishes the compiled loops of targets."""
        flags = f"{'f' if self.fma else ''}{'arm' if self.is_arm else ''}"
        return f"{self.width}{flags}{self.byte_instruction}"

    @property
    def n_registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.width == 64 or self.is_arm else 16

    @property
    def multiplies_bytes(self) -> bool:
        """Whether there is an instruction that multiplies bytes."""
        return self.byte_instruction in ("vnni", "udot")

    @property
    def byte_item(self) -> np.dtype:
        """Dtype of the bytes that one vector lane sums in a step, for rows of uint8."""
        items = {"vnni": "u4", "udot": "u4", "sad": "u8", "portable": "u1"}
        return np.dtype(items[self.byte_instruction])

    def lanes(self, item: np.dtype, n_vectors: int) -> int:
        """Return the lanes of `n_vectors` vectors of items, or of int32 sums of single bytes."""
        return n_vectors * self.width // (4 if item == np.uint8 else item.itemsize)

    def block_shapes(self, has_short_terms: bool, n_features: int) -> tuple[tuple[int, int], ...]:
        """Return the register blocks (rows, vectors of units) to choose from, the best first.

        A block has one accumulator register for each pair of a row and a vector: 16 of the 32
        registers of AVX-512 and Arm, or 8 of 16. Wide blocks need fewer broadcasts of X, tall ones
        fewer loads of units. Measured by ``benchmarks/blocks.py``.

        Parameters
        ----------
        has_short_terms : bool
            Whether a term is a single instruction, so that loads are the bottleneck.
        n_features : int
        """
        others: tuple[tuple[int, int], ...]
        if self.n_registers == 32:
            wide, tall, others = (2, 8), (4, 4), ((6, 4), (1, 8))
        else:
            wide, tall, others = (2, 4), (4, 2), ((1, 4),)
        prefers_tall = has_short_terms or (
            self.width == 64 and self.processor != _HALF_RATE and n_features >= _FEW_FEATURES
        )
        first = (tall, wide) if prefers_tall else (wide, tall)
        return (*first, *others)


@cache
def host_target() -> Target:
    """Return the target of this process: the host, or what NUMBA_CPU_NAME and its like set."""
    return Target.from_llvm(*cpu_target.target_context.codegen().magic_tuple())


def _arm_instruction(triple, processor, features):
    machine = binding.Target.from_triple(triple).create_target_machine(processor, features)
    code = machine.emit_assembly(binding.parse_assembly(_DOT_PRODUCT))
    return "udot" if "udot" in code else "portable"
