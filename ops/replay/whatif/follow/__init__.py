"""``replay whatif --follow``: read a topic at each interval, and report on all records so far.

``batches`` counts the new records in a table, and writes the reports. ``job`` repeats this.
"""
