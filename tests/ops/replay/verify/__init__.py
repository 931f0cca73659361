"""Tests of ``authorizerd verify``."""
