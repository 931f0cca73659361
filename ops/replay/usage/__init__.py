"""``replay usage``: find the ACLs that recorded traffic used, and suggest narrower ones.

``options`` makes the plan; ``job`` runs it on Spark, and ``local`` in one process. There,
``evaluation`` derives all results: it decides which ACLs are old enough to be judged, ``uses`` adds
up the uses of each ACL, and ``suggestions`` derives changes and tests them on every tuple.
``report`` defines ``usage.json``, and writes the lines of the console and the script.
"""
