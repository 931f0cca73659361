"""Recorded tuples, and pure functions that process them, in this process or on Spark.

A command is written once, for both engines: its functions take rows (``tuples.RecordedTuple``) and
yield rows of a key and figures. ``rows`` sums these up in this process, ``spark`` does so on a
cluster, and the command folds the sums, which are sorted by key, into its report.
"""
