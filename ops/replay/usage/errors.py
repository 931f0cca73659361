"""Why nothing is claimed: evidence that is not there, told in one line."""

from __future__ import annotations


class UsageError(Exception):
    """What was recorded, or what is known of the ACLs, does not carry the claim."""
