"""``replay ingest``: convert audit logs into events.

``options`` makes the plan, and ``job`` runs it on Spark: ``inputs`` finds the files, ``rows`` reads
them with ``parse``, and ``tuples`` sums up equal requests. ``report`` defines ``ingest.json``. The
other jobs call ``table.open_table`` to read the result.
"""
