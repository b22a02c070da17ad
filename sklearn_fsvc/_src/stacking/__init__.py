"""Stacked ensembles of networks."""
