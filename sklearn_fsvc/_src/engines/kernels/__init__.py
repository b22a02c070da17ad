# The module of the language of CUDA kernels: to import it is to import their compiler.
language_name = f"{__name__}.language"
