"""What the processor that numba compiles for can do, and the blocks that suit it."""

from dataclasses import dataclass

from llvmlite import binding
from numba.core.registry import cpu_target

# What LLVM makes one instruction of where Arm's processor has it. LLVM is asked, for it knows
# what a processor can do by its name; the features that it lists of this machine do not say it.
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


# The ways by an instruction that multiplies bytes.
BYTES = "vnni", "udot"


@dataclass(frozen=True)
class Target:
    """What the processor that numba compiles for can do.

    `width` is the vector width in bytes; `fma` whether a fused multiply-add exists;
    `uint8` the way absolute differences of bytes are summed; `is_arm` whether it is one of
    Arm, of 64 bits.
    """

    width: int
    fma: bool
    uint8: str
    is_arm: bool = False

    @property
    def registers(self):
        """How many vectors are at hand."""
        return 32 if self.width == 64 or self.is_arm else 16

    @classmethod
    def of(cls, triple, name, features):
        """Read what LLVM says of a processor: its name, and features such as "+avx2,-avx512f"."""
        if triple.startswith(("aarch64", "arm64")):
            return cls(16, True, _of_arm(triple, name, features), is_arm=True)
        has = {f[1:] for f in features.split(",") if f.startswith("+")}
        x86 = triple.startswith(("x86_64", "i686"))
        width = 64 if {"avx512f", "avx512bw"} <= has else 32 if "avx2" in has else 16
        vnni = {64: "avx512vnni", 32: "avxvnni"}.get(width) in has
        uint8 = "portable" if not x86 else "vnni" if vnni else "sad"
        return cls(width, "fma" in has or not x86, uint8)


def _of_arm(triple, name, features):
    machine = binding.Target.from_triple(triple).create_target_machine(name, features)
    code = machine.emit_assembly(binding.parse_assembly(_DOT_PRODUCT))
    return "udot" if "udot" in code else "portable"


def _host():
    triple, name, features = cpu_target.target_context.codegen().magic_tuple()
    return Target.of(triple, name, features), name


TARGET, PROCESSOR = _host()
# Rows and vectors of units of a block: 16 accumulators of the 32 registers of AVX-512 and Arm, or 8
# of the 16 of older processors. Wide ones spare broadcasts, tall ones spare loads of units.
WIDE, TALL = ((2, 8), (4, 4)) if TARGET.registers == 32 else ((2, 4), (4, 2))
OTHERS = ((6, 4), (1, 8)) if TARGET.registers == 32 else ((1, 4),)
# Rows of fewer features than these are soon summed; then wide blocks write longer lines of H.
_NARROW = 64


def shapes(is_short, n_features, processor=PROCESSOR, width=TARGET.width):
    """The blocks to choose from, the best one first (``benchmarks/blocks.py``).

    Parameters
    ----------
    is_short : bool
        Whether a term takes one instruction, so that its units are needed sooner.
    n_features : int
    processor : str
        The name that LLVM has for it.
    width : int
        Bytes of a vector.
    """
    # Zen 4 takes two steps for a vector of 64 bytes: its loads have time. Zen 5 and Intel's
    # servers take one.
    has_time = width < 64 or processor == "znver4" or n_features < _NARROW
    first = (WIDE, TALL) if has_time and not is_short else (TALL, WIDE)
    return (*first, *OTHERS)


# Items summed before the partial sum is added to the total: bounds the rounding error of
# float32 on long rows.
CHUNK = 512
