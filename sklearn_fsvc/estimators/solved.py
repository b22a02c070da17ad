"""Attributes that are worked out when somebody reads them."""


class Current:
    """A fitted attribute that follows what was learnt: whoever reads it has it solved."""

    def __set_name__(self, owner, name):
        self._name = name

    def __get__(self, model, owner=None):
        if model is None:
            return self
        model._settle()
        try:
            return vars(model)[self._name]
        except KeyError:
            name = type(model).__name__
            raise AttributeError(f"{name!r} object has no attribute {self._name!r}") from None

    def __set__(self, model, value):
        vars(model)[self._name] = value

    def __delete__(self, model):
        del vars(model)[self._name]
