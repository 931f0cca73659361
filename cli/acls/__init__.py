"""`authorizerd acls`: the flags and output of kafka-acls."""
