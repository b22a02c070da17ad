"""Kernels as machine code of the GPUs that most people have, which is loaded in milliseconds.

The driver assembles PTX for its GPU the first time that a machine sees it, and that takes a second
for the largest kernel. So the PTX that travels with the package comes assembled, too: in one
archive for each generation of GPUs, where a program is found by the digest of its PTX. There is
nothing to be out of date: PTX that has changed has another digest, and the driver assembles it.
"""

import hashlib
import subprocess
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

# Compute capabilities that machine code is for: it runs on all later ones of the same generation.
CHIPS = (8, 0), (9, 0), (10, 0), (12, 0)
# The oldest driver that reads what the assembler of CUDA 13 writes, as CuPy gives its version.
DRIVER = 13_000


def folder():
    """Where the archives lie."""
    return files(f"{__package__}.cuda") / "cubin"


def archive_name(chip):
    return "sm_{}{}.zip".format(*chip)


def digest(program):
    """The name of the machine code of a program in PTX."""
    return hashlib.sha256(program.encode()).hexdigest()[:32]


def carried(program, capability, driver):
    """The machine code of a program in PTX; None where none travels with the package.

    Parameters
    ----------
    program : str
    capability : tuple of int
        Of the GPU, major and minor.
    driver : int
        Version of CUDA that the driver knows, such as 13010 for 13.1.
    """
    chips = [chip for chip in CHIPS if chip[0] == capability[0] and chip <= capability]
    if not chips or driver < DRIVER:
        return None
    try:
        with (folder() / archive_name(chips[-1])).open("rb") as file, ZipFile(file) as archive:
            return archive.read(digest(program))
    except (OSError, KeyError):
        return None


def assemble(program, chip, assembler):
    """Machine code of a program in PTX by NVIDIA's assembler, ``ptxas``; it needs no GPU."""
    with TemporaryDirectory() as name:
        source, target = Path(name, "kernel.ptx"), Path(name, "kernel.cubin")
        source.write_text(program)
        architecture = "--gpu-name=sm_{}{}".format(*chip)
        subprocess.run([assembler, architecture, source, "-o", target], check=True)
        return target.read_bytes()


def write(programs, chip, assembler):
    """Make the archive of a chip hold these programs and no others, its known ones as they are."""
    path, known = Path(folder() / archive_name(chip)), {}
    if path.exists():
        with ZipFile(path) as archive:
            known = {name: archive.read(name) for name in archive.namelist()}
    wanted = {digest(program): program for program in programs}
    if known.keys() == wanted.keys():
        return
    print(path.name, flush=True)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, program in sorted(wanted.items()):
            code = known.get(name) or assemble(program, chip, assembler)
            # Of a date of its own, each archive would be another one.
            archive.writestr(ZipInfo(name), code, ZIP_DEFLATED, 9)
