"""CUDA kernels, written in Python.

`language` is the dialect that they are written in, `kernel` what the engine launches. `compiler`
turns a kernel into PTX and machine code; `build` does so for all kernels and writes the archive
that a wheel contains; `programs` finds the program of a kernel at run time.
"""
