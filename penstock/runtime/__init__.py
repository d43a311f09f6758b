"""How a table runs: read, compute, commit, as a stream and in batch."""
