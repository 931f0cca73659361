"""What is known of a principal: whether it is a super user, or whether any ACL names it."""

from __future__ import annotations

from authorizerd.cli.acl_source import AclSource


def is_named(source: AclSource, principal: str) -> bool:
    """Return True if an ACL or ``super.users`` names exactly this principal."""
    if principal in source.settings.super_users:
        return True
    return any(index.principals.get(principal) is not None for index in source.snapshot.types)


def describe_principal(source: AclSource, principal: str) -> str:
    """Return the principal, with what explains its rights."""
    if principal in source.settings.super_users:
        return f"{principal} (a super user)"
    if not is_named(source, principal):
        return f"{principal} (no ACL names it: this holds for everyone)"
    return principal
