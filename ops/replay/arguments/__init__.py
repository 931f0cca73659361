"""Parse the arguments of ``authorizerd replay`` into a plan for a job and for Spark."""
