"""Around the process: a worked example, benchmarks."""
