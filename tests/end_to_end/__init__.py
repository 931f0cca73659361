"""Tests of the daemon as its users see it: a process, its ports, its exit code."""
