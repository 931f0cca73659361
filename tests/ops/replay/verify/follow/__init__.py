"""Tests of ``authorizerd verify --follow``."""
