"""``replay whatif``: compare the decisions of other ACLs with recorded ones.

``options`` reads the ACLs and makes the plan, which ``submit`` sends to Spark. There, ``job`` gives
each worker an index of the ACLs (``judging.index``) and passes it the distinct tuples that ingest
wrote. ``changes`` judges them in batches (``judging.questions``) and yields those that change. The
job sums these up in ``whatif.json``, whose content ``report`` defines.
"""
