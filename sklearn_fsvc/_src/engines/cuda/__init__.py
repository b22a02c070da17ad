"""The engine of one NVIDIA GPU.

`engine` is its class, `layers` the evaluation of each kind of layer, `integers` exact Gram matrices
of quantised activations, `transfer` copies between host and GPU, `algebra` linear algebra for
readouts, `launch` the launch of kernels and `availability` the check whether a GPU works.
"""

from .engine import CudaEngine as CudaEngine
