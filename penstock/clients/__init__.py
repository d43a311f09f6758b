"""For programs that feed Penstock."""
