"""Tables of the gold layer."""
