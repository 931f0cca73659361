"""Everything for operators: packaging, monitoring and replay."""
