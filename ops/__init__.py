"""Everything around the daemon: packaging, monitoring, examples, benchmarks and replay."""
