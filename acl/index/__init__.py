"""The index of the ACLs, by which a snapshot decides, and how it is built."""
