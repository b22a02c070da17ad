"""Two fake devices, numbered like GPUs, for tests of device groups without a GPU."""

from sklearn_fsvc._src.engines.jit import JitEngine


class FakeDevice(JitEngine):
    """The jit engine as one of two devices."""

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
