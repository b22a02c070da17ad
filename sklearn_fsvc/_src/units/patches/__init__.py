"""A layer of patches of images: what is asked of it, and what becomes of it."""
