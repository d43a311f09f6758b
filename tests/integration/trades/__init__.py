"""The trades slice on real parts, by one supervisor: a package, so that a fixture lives as long."""
