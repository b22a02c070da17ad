"""How rows come and go: jobs and samples, checked, cut into tiles that fit the memory, streamed."""
