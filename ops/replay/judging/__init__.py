"""Judge recorded requests by a set of ACLs, in Spark's Python workers but without Spark's API."""
