"""Real processes under faults, and a judge that reads the log by itself."""
