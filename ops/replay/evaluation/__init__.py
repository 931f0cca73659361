"""Recorded requests judged by a set of ACLs. Runs in Spark's Python workers, and needs no Spark."""
