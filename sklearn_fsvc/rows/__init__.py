"""How rows come and go: checked, cut into tiles that fit the memory, streamed."""
