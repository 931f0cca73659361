"""What can: the patterns of resources that a principal may use."""

from __future__ import annotations

import msgspec

from authorizerd.acl.decision import AuthorizerSettings, everyone_error
from authorizerd.acl.index.bits import DENIES
from authorizerd.acl.model import WILDCARD_PRINCIPAL
from authorizerd.acl.search.hosts import HostAccess
from authorizerd.acl.search.pattern_rules import ALL_BITS, Pattern, PatternRules
from authorizerd.acl.search.regions import RegionList, RegionWalk
from authorizerd.acl.snapshot import AclSnapshot, rules_of


class PatternAccess(msgspec.Struct, frozen=True, gc=False):
    """A pattern of resources, and the hosts from which they are allowed.

    Names that one of ``exceptions`` matches are excluded, because they are allowed from fewer
    hosts, or from none. If some hosts are left, another result lists them.
    """

    resource_type: int
    pattern_type: int
    name: str
    operation: int
    hosts: HostAccess
    exceptions: tuple[Pattern, ...]


class Resources(msgspec.Struct, frozen=True, gc=False):
    """The resources that a principal may use.

    A name is allowed from a host if one of ``patterns`` matches the name, none of its exceptions
    does, and its hosts allow the host; or by ``everything`` or ``unlisted``.

    Attributes:
        patterns: sorted by name, a prefix before the equal literal. Before them all: the prefix of
            length 0, and the wildcard.
        everything: the principal is a super user: every name is allowed from every host.
        unlisted: names that no pattern of anyone's ACLs matches are allowed from
            every host (allow.everyone.if.no.acl.found).
        next_after: with a limit: the ``after`` of the next page, or None if this is the last one.
    """

    patterns: tuple[PatternAccess, ...]
    everything: bool = False
    unlisted: bool = False
    next_after: Pattern | None = None


def find_resources(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    principal: str,
    operation: int,
    resource_type: int,
    *,
    after: Pattern | None = None,
    limit: int | None = None,
    literals: bool = True,
) -> Resources:
    """Return the patterns of resources on which the principal may do ``operation``.

    Denials are subtracted, and implied operations count. The result is exact but for one
    case: if the wildcard and the prefix ``*`` both have rules, and one of them denies single
    hosts, the result may leave out hosts from which the single name ``*`` is allowed.

    Args:
        operation, resource_type: codes, as for ``acl.decision.authorize``.
        after: only patterns that follow this one in the result's order. Each page examines every
            rule of the principal and of ``User:*``.
        limit: at most this many patterns, at least 1.
        literals: whether single names are also listed. Otherwise they are only exceptions, and the
            search is ten times as fast for a principal with many of them.

    Raises:
        InvalidQuestionError: the principal is ``User:*``, which means everyone.
        SearchLimitError: the rules of a pattern name too many hosts.
    """
    if principal in settings.super_users:
        return Resources((), everything=True)
    if principal == WILDCARD_PRINCIPAL:
        raise everyone_error()
    index = snapshot.types[resource_type]
    sources = (rules_of(index, principal), index.everyone)
    results = RegionList(after, limit, literals)
    walk = RegionWalk(results, operation, snapshot.rules)
    walk.enter_roots(sources)
    # Without literals, a single name matters only as an exception, which an ALLOW cannot make.
    literal_mask = ALL_BITS if literals else DENIES[operation]
    rules = PatternRules(walk.mask, walk.star_mask, literal_mask, after)
    for source in sources:
        rules.collect(source, snapshot.rules)
    walk.visit(rules.iterate(is_partial=limit is not None and not walk.has_denials))
    patterns = tuple(
        PatternAccess(
            resource_type,
            *region.pattern,
            operation,
            region.access,
            tuple(region.exceptions),
        )
        for region in results.regions
    )
    return Resources(
        patterns,
        unlisted=settings.allow_everyone_if_no_acl_found,
        next_after=results.next_after,
    )
