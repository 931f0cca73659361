"""What the words after ``authorizerd replay`` mean: a plan for a job, and how Spark runs it."""
