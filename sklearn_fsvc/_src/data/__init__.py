"""Samples: validation, sources, tiles that fit into the memory, and passes over them."""
