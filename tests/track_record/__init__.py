"""The page docs/track-record.md: defects that were found, and how long random tests have run."""
