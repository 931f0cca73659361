"""Read sets of ACLs. The command reads each source once; the jobs never read one."""
