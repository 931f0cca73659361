"""Recorded traffic sent once more, to a live daemon, on the recorded schedule."""
