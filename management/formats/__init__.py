"""Read and write ACLs as text: kafka-acls' listing, and documents of several tools."""
