"""Small files merged, logs cleaned up, bytes removed that nobody can ask for."""
