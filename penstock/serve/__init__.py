"""How people read: SQL over live tables (``query``) and following their changes (``tail``).

Nothing here needs a running platform, a session or a lock: a live table is a Delta table at a
stable path, and reading it is reading files. Modules are imported where they are used, because
the time between Enter and the first row is the feature.
"""
