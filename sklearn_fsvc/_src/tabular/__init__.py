"""Pipelines for tables."""
