"""Tables of the bronze layer."""
