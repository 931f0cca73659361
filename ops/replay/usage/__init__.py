"""``replay usage``: find the ACLs that recorded traffic used, and suggest narrower ones.

``options`` makes the plan, and ``job`` runs it on Spark: ``window`` decides which ACLs are old
enough to be judged, ``rows`` finds the ACLs that each tuple used (``matching``), and ``sums`` adds
up the uses. ``suggestions`` derives changes, which ``proving`` tests on every tuple. ``report``
defines ``usage.json``, and ``commands`` writes the script.
"""
