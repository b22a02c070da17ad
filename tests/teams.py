"""Two engines of one thread on the host, numbered like GPUs: what a team is tested with."""

from sklearn_fsvc._src.engines.jit import JitEngine


class Half(JitEngine):
    """Half of the host."""

    name = "half"
    is_numbered = True

    def __init__(self, index=0):
        self.index = index

    def __enter__(self):
        self.name = f"half:{self.index}"
        return super().__enter__()

    @classmethod
    def count(cls):
        return 2

    def why_unavailable(self):
        if self.index > 1:
            return f"there is no half {self.index}; there are 2"
        return super().why_unavailable()
