"""Fitted models for places without this package."""
