"""Search over the hidden size."""
