"""Tables of the silver layer."""
