"""The source that follows a KRaft quorum: a pure state machine, and a task that does its I/O."""
