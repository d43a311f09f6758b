"""Spark as we use it: where it computes, with what settings, and its session."""
