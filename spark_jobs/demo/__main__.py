"""Send demo traffic at a steady rate until told to stop.

Example: python -m spark_jobs.demo --rate 20 --only trades,readings --seconds 60
"""

from __future__ import annotations
