"""One NVIDIA GPU.

`engine` is the device, `layers` how each kind of layer is evaluated there, `transfer` the
way in and out, `algebra` what solves, `availability` whether it works at all.
"""

from .engine import CudaEngine as CudaEngine
