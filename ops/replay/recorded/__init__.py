"""Recorded tuples, and the pure functions that are run over them, in this process or on Spark.

A command is written once: its functions take rows (``tuples.RecordedTuple``) and yield others with
a key and figures. ``rows`` sums these up in this process, ``spark`` does so on a cluster, and the
command folds the sums, which are sorted by key, into its report.
"""
