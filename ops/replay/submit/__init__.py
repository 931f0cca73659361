"""Submit a job to Spark: check what it needs, pack it, run spark-submit."""
