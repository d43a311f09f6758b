"""What DAGs are built from: thin helpers that never import pyspark.

A DAG file is read every few seconds by Airflow; everything it needs at that moment must be cheap.
Work is done when a task runs, and anything that needs a JVM runs in a process of its own.
"""

from penstock.airflow.streams import StreamsStale, watch_streams

__all__ = ["StreamsStale", "watch_streams"]
