"""Engines: evaluate layers on a device. CONTRIBUTING.md describes how to write one."""

from ._src.engines import Engine, get_engine, register
from ._src.engines.host import HostEngine

__all__ = ["Engine", "HostEngine", "get_engine", "register"]
