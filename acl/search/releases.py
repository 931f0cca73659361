"""Combine the answers of the Kafka releases that may judge: one ALLOW suffices."""

from __future__ import annotations

from authorizerd.acl.decision import AuthorizerSettings, authorize
from authorizerd.acl.releases import RULES
from authorizerd.acl.snapshot import AclSnapshot, with_rules


def list_releases(snapshot: AclSnapshot) -> tuple[AclSnapshot, ...]:
    """Return the ACLs, judged by each release that may judge."""
    releases = snapshot.rules.releases
    if len(releases) == 1:
        return (snapshot,)
    return tuple(with_rules(snapshot, RULES[release]) for release in releases)


def any_allows(
    snapshots: tuple[AclSnapshot, ...],
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
    name: str,
) -> bool:
    """Return True if ``acl.decision.authorize`` returns True for one of the snapshots."""
    return any(
        authorize(snapshot, settings, principal, host, operation, resource_type, name)
        for snapshot in snapshots
    )
