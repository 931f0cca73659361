"""Turn recorded events into frames, each with its time, by lane."""
