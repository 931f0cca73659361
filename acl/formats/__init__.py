"""Read ACLs from text: the output of kafka-acls, and YAML and JSON documents."""
