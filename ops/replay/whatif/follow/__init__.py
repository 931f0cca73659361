"""``replay whatif --follow``: compare other ACLs with the decisions in a Kafka topic, as they come.

``options`` makes the plan. ``job`` runs it as a stream of batches: it adds the sums of each batch
to the tuples so far, and has ``whatif`` judge these. ``state`` says which records were counted.
"""
