"""``replay whatif``: compare the decisions of other ACLs with recorded ones.

``options`` reads the ACLs and makes the plan. ``changes`` judges distinct tuples by an index of the
ACLs (``judging.index``) and yields those that change; ``evaluation`` sums these up in
``whatif.json``, whose content ``report`` defines. ``job`` does this on Spark, ``local.running`` in
one process, and ``follow`` for the records of a topic.
"""
