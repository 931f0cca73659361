"""The spark-submit line: what it needs, what it carries, and how it is run."""
