"""Helpers that any module may import."""
