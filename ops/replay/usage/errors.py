"""Errors for missing evidence; the text of each is one line for the user."""

from __future__ import annotations


class UsageError(Exception):
    """The record, or the dates of the ACLs, do not support a claim."""
