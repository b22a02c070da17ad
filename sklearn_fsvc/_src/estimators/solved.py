"""Attributes of a readout that is solved when it is needed."""


class Solved:
    """A fitted attribute that a model has as soon as its readout is solved.

    Whoever reads it earlier is told. Nothing is solved for it: `hasattr`, a copy and what shows
    a model read attributes, too.
    """

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, model, owner=None):
        if model is None:
            return self
        why = f"{type(model).__name__!r} object has no attribute {self._name!r}"
        if "_learning" in vars(model):
            why += (
                " until its readout is solved, for rows have come or gone: call solve(), or predict"
            )
        raise AttributeError(why)
