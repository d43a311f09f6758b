"""Demo traffic: `python -m spark_jobs.demo --rate 20`."""
