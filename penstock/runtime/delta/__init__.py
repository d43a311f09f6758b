"""Delta logs with exactly one writer each: commits, data files, reading by version, swapping."""
