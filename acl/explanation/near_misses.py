"""Near misses: what comes close to allowing a denied question, the closest first.

**Invariant:** every near miss is true. A question in ``instead`` is allowed; with ``rewritten`` in
place of ``acl``, the question itself is allowed.

The search covers the patterns and hosts of the principal's own rules and of those for everyone, all
principals with rules for the resource type, and the super users, each up to a limit. It does not
cover other resource types, typing errors, or two differences at once.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec.structs import replace

from authorizerd.acl.decision import AuthorizerSettings, MatchingAcl, explain, is_allowed
from authorizerd.acl.explanation.matches import Matches
from authorizerd.acl.explanation.model import Changes, NearMiss, NearMissKind
from authorizerd.acl.explanation.near_hosts import find_near_hosts
from authorizerd.acl.explanation.near_names import find_near_name, find_near_patterns
from authorizerd.acl.explanation.near_principals import find_near_principal
from authorizerd.acl.explanation.probe import Probe
from authorizerd.acl.explanation.words import (
    join_words,
    name_operation,
    name_pattern,
    name_resource,
)
from authorizerd.acl.model import (
    OPERATIONS,
    Acl,
    PermissionType,
    Question,
    ResourceType,
)
from authorizerd.acl.operations import SUPPORTED
from authorizerd.acl.search.releases import list_releases
from authorizerd.acl.snapshot import AclSnapshot, is_unjudgeable

NEAR_MISSES_MAX: Final = 5
PATTERNS_MAX: Final = 2


def find_near_misses(
    snapshot: AclSnapshot,
    settings: AuthorizerSettings,
    question: Question,
    matches: Matches,
    changes: Changes,
    unsearched: list[str],
) -> tuple[NearMiss, ...]:
    """Return the near misses of a denied question.

    Args:
        changes: the changes that would allow it.
        unsearched: gets a sentence for each search that ended early.
    """
    probe = Probe(snapshot, settings, question, matches.denial_count)
    denial = matches.denials[0] if matches.denials else None
    hosts = find_near_hosts(probe, matches.denial_count, denial, unsearched)
    releases = _find_releases(probe)
    misses = [*releases, *(miss for miss in hosts if miss.acl == denial)]
    if len(misses) == len(releases):
        misses += _find_single_denial(question, matches, changes)
    for near in (
        find_near_principal(probe, unsearched),
        find_near_name(probe, unsearched),
    ):
        if near is not None:
            misses.append(near)
    misses += islice(find_near_patterns(probe), PATTERNS_MAX)
    misses += (miss for miss in hosts if miss.acl != denial)
    misses += _find_operations(probe)
    return tuple(misses[:NEAR_MISSES_MAX])


def _find_releases(probe: Probe) -> list[NearMiss]:
    """Return a near miss if another release allows it and the judging release is unknown."""
    snapshots = list_releases(probe.snapshot)
    allowing = [state for state in snapshots if is_allowed(state, probe.settings, probe.question)]
    if not allowing:
        return []
    rule = explain(allowing[0], probe.settings, probe.question).rule
    names = [" and ".join(state.rules.releases) for state in allowing]
    denying = [" and ".join(state.rules.releases) for state in snapshots if state not in allowing]
    text = (
        f"Kafka {join_words(names)} allows it, and Kafka {join_words(denying)} does not. It is not"
        " known which of them judges."
    )
    acl = rule.acl if isinstance(rule, MatchingAcl) else None
    return [NearMiss(kind=NearMissKind.RELEASE, text=text, acl=acl)]


def _find_single_denial(question: Question, matches: Matches, changes: Changes) -> list[NearMiss]:
    """Return the DENY without which the question would be allowed, if there is only one."""
    smallest = changes.smallest
    if smallest is None or smallest.adds or changes.stays_denied:
        return []
    otherwise = "allow.everyone.if.no.acl.found"
    if matches.allows:
        otherwise = _summarize(matches.allows[-1])
    operation = name_operation(question.operation)
    text = (
        f"Only {_summarize(smallest.acl)} prevents it: without it, {otherwise} allows {operation}."
    )
    return [NearMiss(kind=NearMissKind.SINGLE_DENIAL, text=text, acl=smallest.acl)]


def _summarize(acl: Acl) -> str:
    """Return an ACL in a few words: "the DENY of READ on prefix `orders-` for User:a"."""
    permission = PermissionType.read(acl.permission_type)
    # An ACL denies if a later Kafka version has added its permission type.
    kind = permission.name if permission > PermissionType.ANY else "ACL"
    pattern = name_pattern(acl.pattern_type, acl.resource_name)
    operation = name_operation(acl.operation)
    text = f"the {kind} of {operation} on {pattern} for {acl.principal} from host {acl.host}"
    return f"{text}, whose principal has no colon," if is_unjudgeable(acl) else text


def _find_operations(probe: Probe) -> list[NearMiss]:
    """Return the other operations that are allowed on the resource."""
    question = probe.question
    if question.operation not in OPERATIONS:
        return []
    allowed = [
        operation
        for operation in SUPPORTED.get(ResourceType.read(question.resource_type), ())
        if operation != question.operation
        and probe.is_allowed(replace(question, operation=int(operation)))
    ]
    if not allowed:
        return []
    instead = replace(question, operation=int(allowed[0]))
    resource = name_resource(question.resource_type, question.resource_name)
    names = join_words([operation.name for operation in allowed])
    asked = name_operation(question.operation)
    text = f"{question.principal} is allowed {names} on {resource}, but not {asked}."
    return [
        NearMiss(
            kind=NearMissKind.OPERATION, text=text, acl=probe.rule_acl(instead), instead=instead
        )
    ]
