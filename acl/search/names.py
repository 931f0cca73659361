"""What can, by name: the known resources that a principal may use from one host."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from authorizerd.acl.decision import AuthorizerSettings, authorize, everyone_error
from authorizerd.acl.model import WILDCARD_PRINCIPAL, Operation
from authorizerd.acl.search.releases import any_allows, list_releases
from authorizerd.acl.snapshot import AclSnapshot, Rules, rules_of


def find_names(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    host: str | None,
    operation: int,
    resource_type: int,
    known_names: Iterable[str],
    *,
    after: str | None = None,
    limit: int | None = None,
    own_only: bool = False,
    describable: AclSnapshot | None = None,
) -> tuple[str, ...]:
    """Return the names for which ``acl.decision.authorize`` returns True, sorted.

    While several Kafka releases may judge, these are the names that any of them allows.

    Examined are the names of all principals' literal ACLs, and ``known_names``. A page examines
    every name. If most names are allowed, it makes few more decisions than it returns names.

    Args:
        own_only: leave out names that the principal may not know: those that occur only in ACLs of
            others, and ``known_names`` that it may not DESCRIBE.
        describable: the ACLs by which it may DESCRIBE ``known_names``; None: those of ``snapshot``.
            For a past state, pass the current ACLs, because the names are current.
        known_names: names that exist, such as the topics of the cluster; may repeat names.
        after: only names that sort after this one. For the next page: the last one of this page.
        limit: at most this many names, at least 1. To learn whether there are more, ask for one
            more than needed.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
    """
    if principal == WILDCARD_PRINCIPAL and principal not in settings.super_users:
        raise everyone_error()
    index = snapshot.types[resource_type]
    literals: Iterable[str] = index.resources.literals
    if own_only:
        literals = _own_literals(host, rules_of(index, principal), index.everyone)
    hidden = dict.fromkeys(known_names, own_only) | dict.fromkeys(literals, False)
    ask = partial(any_allows, list_releases(snapshot), settings, principal, host)
    known_by = snapshot if describable is None else describable
    may_know = partial(authorize, known_by, settings, principal, host, Operation.DESCRIBE)
    chosen: list[str] = []
    for name in sorted(name for name in hidden if after is None or name > after):
        if len(chosen) == limit:
            break
        if ask(operation, resource_type, name) and not (
            hidden[name] and not may_know(resource_type, name)
        ):
            chosen.append(name)
    return tuple(chosen)


def _own_literals(host: str | None, *sources: Rules) -> Iterable[str]:
    """Return the names that a principal's own rules or those of ``User:*`` may allow."""
    for rules in sources:
        yield from rules.any_host.literals
        if host is not None:
            if host in rules.hosts:
                yield from rules.hosts[host].literals
            for network in rules.ranges.find_networks(host):
                yield from network.patterns.literals
