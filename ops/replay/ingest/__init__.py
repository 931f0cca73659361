"""``replay ingest``: add audit logs to a table of events.

``options`` makes the plan, and ``job`` runs it on Spark: ``inputs`` and ``topics`` find what is
new, ``rows`` reads it with ``parse``, ``runs`` writes it, ``grouping`` sums it up, ``contents``
finds what the table already has, ``sums`` adds up equal requests, and ``committing`` commits the
run. Other commands read the table with ``table`` on Spark, or with ``commit`` without it.
"""
