"""Rows tried again with mended code, records declared void, copies held against their source."""
