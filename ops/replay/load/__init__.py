"""``replay load``: send recorded questions to a running daemon, on the recorded schedule.

``options`` makes the plan, and ``checks`` validates it. ``command`` runs it on this machine, and
``job`` on Spark: ``plan`` packs all questions into timed frames, then ``lanes`` sends them and
measures the answers. ``running`` writes the ``report``, which judges the ``thresholds``.
"""
