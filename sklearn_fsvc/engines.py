"""Engines: places where a layer is evaluated. How to write one: CONTRIBUTING.md."""

from ._src.engines import Engine, get_engine, register
from ._src.engines.host import HostEngine

__all__ = ["Engine", "HostEngine", "get_engine", "register"]
