"""Kernels of the engines: compiled loops for CPUs here, CUDA kernels in `cuda`."""
