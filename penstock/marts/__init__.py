"""The marts: dbt over live tables, in a Spark session that Penstock owns (docs/marts.md)."""
