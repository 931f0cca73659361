"""``replay usage``: find the ACLs that recorded traffic used, and suggest narrower ones.

``options`` makes the plan; ``job`` runs it on Spark, and ``local.running`` in one process. There,
``evaluation`` derives all results: ``window`` decides which ACLs are old enough to be judged, and
``uses`` adds up the uses of each ACL. ``suggestions`` derives changes, which ``proving`` tests on
every tuple. ``report`` defines ``usage.json``, and ``commands`` writes the script.
"""
