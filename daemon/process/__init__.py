"""The process, not its work: signals, stages, threads, garbage, time, and a forced end."""
