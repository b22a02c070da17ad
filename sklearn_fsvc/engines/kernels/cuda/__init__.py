"""Kernels on an NVIDIA GPU, compiled as they are first asked for."""
