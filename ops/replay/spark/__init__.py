"""Run a job on Spark: the driver's script, the session, and what every job uses."""
