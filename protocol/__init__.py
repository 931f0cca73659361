"""Bytes to values and back: record batches, metadata records, checkpoints, HTTP. Sans-IO."""
