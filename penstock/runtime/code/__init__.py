"""A revision's code: bundles that carry it and fingerprints of what it means."""
