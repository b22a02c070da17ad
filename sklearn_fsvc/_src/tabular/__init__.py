"""Pipelines for tabular data."""
