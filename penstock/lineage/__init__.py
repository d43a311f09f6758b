"""Where rows and bytes come from: the graph of tables, the way of a row, the ledger, the events.

Everything here reads: the manifest, the tables' own logs and, where it answers, the registry.
"""
