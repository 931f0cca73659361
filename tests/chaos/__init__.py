"""Real processes under faults, and a checker that reads the log by itself."""
