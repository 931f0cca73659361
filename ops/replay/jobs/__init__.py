"""The Spark jobs. pyspark is imported here and nowhere else."""
