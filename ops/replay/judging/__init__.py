"""Judge recorded requests by a set of ACLs. Runs in Spark's Python workers, needs no Spark."""
