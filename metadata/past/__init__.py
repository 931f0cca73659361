"""The past of a log: its state at an earlier moment, and the changes since."""
