"""The build hook of wheels: compiles the CUDA kernels and adds them as one archive.

It needs a compiler of some hundred megabytes, and no GPU. So it does this if there is an NVIDIA
driver on the machine, or if SKLEARN_FSVC_BUILD_KERNELS=1, as for releases; never if that is 0.
"""

import ctypes.util
import os
import shutil
import subprocess
import sys

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "SKLEARN_FSVC_BUILD_KERNELS"
BUILD = "sklearn_fsvc._src.engines.kernels.cuda.build"
ARCHIVE = "sklearn_fsvc/_src/engines/kernels/cuda/kernels.zip"


def has_driver():
    """Return whether an NVIDIA driver is installed: its library, on Linux or Windows, or tool."""
    names = "cuda", "nvcuda"
    return any(map(ctypes.util.find_library, names)) or shutil.which("nvidia-smi") is not None


def is_wanted():
    """Return whether to compile the kernels."""
    choice = os.environ.get(VARIABLE, "")
    if choice not in ("", "0", "1"):
        raise ValueError(f"{VARIABLE} is {choice!r}; it may be 0, 1 or not set")
    return choice == "1" if choice else has_driver()


class KernelHook(BuildHookInterface):
    def dependencies(self):
        """Return the requirements of this build alone: the compiler, and what the package imports.

        The build imports the package, whose modules define the kernels.
        """
        if not is_wanted():
            return []
        project = self.metadata.core
        return [*project.optional_dependencies["cuda-kernels"], *project.dependencies]

    def initialize(self, version, build_data):
        if not is_wanted():
            return
        self.app.display_info("Compiling the CUDA kernels, which takes a minute or two")
        command = [sys.executable, "-m", BUILD]
        if subprocess.run(command, cwd=self.root).returncode:
            raise RuntimeError(
                f"the CUDA kernels could not be compiled; {VARIABLE}=0 installs without them"
            )
        # git ignores the archive, and so would the wheel.
        build_data["artifacts"].append(f"/{ARCHIVE}")
