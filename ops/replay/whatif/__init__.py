"""``replay whatif``: compare the decisions of other ACLs with recorded ones.

``options`` reads the ACLs and makes the plan. ``evaluation`` judges distinct tuples by an index of
the ACLs (``judging.index``), and sums up those that change in ``whatif.json``, whose content
``report`` defines. ``job`` does this on Spark, ``local`` in one process, and ``follow`` for the
records of a topic.
"""
