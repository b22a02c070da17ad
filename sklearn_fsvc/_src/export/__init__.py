"""Readers of fitted models, which write them down for other programs."""
