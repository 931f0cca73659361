"""Evaluate recorded traffic in this process, without Spark; only ``table`` needs Arrow.

**Invariant:** for the same lines, the results are those of the Spark jobs ``ingest`` and
``whatif``: the same parser, the same reasons, the same decisions. Memory is bounded: too much
traffic raises an error that names ``authorizerd replay``.
"""
