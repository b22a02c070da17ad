"""Targets: y as numbers for a readout, and scores as predictions."""
