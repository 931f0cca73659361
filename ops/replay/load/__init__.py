"""``replay load``: send recorded questions to a running daemon, on the recorded schedule.

``options`` makes the plan, ``checks`` validates it, and ``job`` runs it on Spark: ``plan`` packs
all questions into timed frames, then ``lanes`` sends them and measures the answers. ``results``
combines the results of the lanes and checks the ``thresholds``. ``report`` defines ``load.json``.
"""
