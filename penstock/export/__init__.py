"""Live tables copied to where analysts work: a DuckDB file, ClickHouse, Parquet for warehouses.

Only live tables are read, at one pinned version each, through their logs and change feeds; no
Spark, no JVM. ``run`` decides, ``feed`` says what changed, the targets write.
"""
