"""Targets: y encoded for a readout, and scores decoded into predictions.

The target specifications are in `classes`, with `labels`, and in `numeric`, with `transforms`;
`encoding` has the encoded y, and validates weights and groups.
"""
