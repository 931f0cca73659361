"""Turn recorded events into frames, and assign each frame a lane and a time."""
