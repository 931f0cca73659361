"""Read sets of ACLs. The command reads each source once; jobs never read a source."""
