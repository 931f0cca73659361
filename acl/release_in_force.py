"""Find out which Kafka releases' rules apply, and why.

A followed cluster shows the releases of its nodes by the levels of metadata.version that they
support. The daemon's own log has one finalized level, and nobody else judges by it.

**Invariant:** an unknown release counts as any release. A node counts until the cluster removes it,
even while it is fenced or cannot be reached.

Source: KIP-584, KIP-778; Kafka 4.4 MetadataVersion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Final

import msgspec

from authorizerd.acl.releases import (
    ANY_RELEASE,
    NEWEST_LEVEL,
    RULES,
    Release,
    ReleaseRules,
    excludes_4_3,
    releases_at,
    rules_for,
)
from authorizerd.image.changes import UNKNOWN_LEVEL
from authorizerd.image.cluster import ClusterImage

SETTING: Final = "authorizerd.kafka.release"
NODES_NAMED_MAX: Final = 5
"""How many nodes of each kind and release a reason names."""

_Node = tuple[str, int]
"""\"broker\" or \"controller\", and the node's id."""


class Evidence(Enum):
    """The origin of an image, which decides which of its facts prove a release.

    The values are those of ``authorizerd.source``.
    """

    OWN_LOG = "log"
    QUORUM = "quorum"
    BROKERS = "brokers"


class ReleaseInForce(msgspec.Struct, frozen=True):
    """The rules in force.

    Attributes:
        reason: why, as a sentence without a full stop. It names the nodes that cause a mix. newer:
            the nodes with an untested release; empty if there are none.
    """

    rules: ReleaseRules
    reason: str
    newer: str = ""


UNKNOWN_RELEASE: Final = ReleaseInForce(
    ANY_RELEASE, "it is not known yet which Kafka releases the cluster runs"
)


def judge_release(
    image: ClusterImage, evidence: Evidence, setting: Release | None = None
) -> ReleaseInForce:
    """Return the rules in force.

    Args:
        setting: the release that an operator has chosen; None to detect it.
    """
    found = _judge_own(image) if evidence is Evidence.OWN_LOG else _judge_nodes(image, evidence)
    if setting is None:
        return found
    # A controller of 4.4 creates no range before the level at which all nodes read it.
    is_early = evidence is Evidence.OWN_LOG and not excludes_4_3(image.metadata_version)
    rules = rules_for((setting,), has_range_level=not is_early)
    reason = f"{SETTING}={setting}"
    if found.rules.releases != rules.releases or found.newer:
        reason += f", although {found.reason}"
    return ReleaseInForce(rules, reason, found.newer)


def _judge_own(image: ClusterImage) -> ReleaseInForce:
    level = image.metadata_version
    if level == UNKNOWN_LEVEL:
        return ReleaseInForce(ANY_RELEASE, "the log has no metadata.version")
    newer = _describe_newer(level)
    reason = newer or f"the log's metadata.version is {level}"
    return ReleaseInForce(rules_for(releases_at(level)), reason, newer)


def _describe_newer(finalized: int) -> str:
    if finalized <= NEWEST_LEVEL:
        return ""
    return f"metadata.version is {finalized}, above {NEWEST_LEVEL}, the newest that was tested"


def _judge_nodes(image: ClusterImage, evidence: Evidence) -> ReleaseInForce:
    levels = _find_levels(image, evidence)
    finalized = image.metadata_version
    newer = _describe_newer(finalized)
    newest = [node for node, level in levels.items() if level > NEWEST_LEVEL]
    if newest:
        newer = _sentence(newest, f"a release newer than {max(Release)}, which was not tested")
    if newer:
        others = {node: level for node, level in levels.items() if level <= NEWEST_LEVEL}
        return ReleaseInForce(ANY_RELEASE, "; ".join((newer, *_describe(others, finalized))), newer)
    if excludes_4_3(finalized):
        reason = f"metadata.version is {finalized}, which no node of {min(Release)} supports"
        return ReleaseInForce(RULES[Release.KAFKA_4_4], reason)
    if not image.nodes:
        return UNKNOWN_RELEASE
    possible = frozenset[Release]().union(*map(releases_at, levels.values()))
    return ReleaseInForce(rules_for(possible), "; ".join(_describe(levels, finalized)))


def _find_levels(image: ClusterImage, evidence: Evidence) -> Mapping[_Node, int]:
    """Return the level that each node supports, for nodes that may judge."""
    voters = image.voters
    levels = {
        ("controller" if is_controller else "broker", node_id): node.level
        for (is_controller, node_id), node in sorted(image.nodes.items(), key=itemgetter(0))
        if not is_controller or voters is None or node_id in voters
    }
    # A controller registers after its start, and not at all below a certain metadata.version.
    for node_id in sorted(voters or ()):
        levels.setdefault(("controller", node_id), UNKNOWN_LEVEL)
    if evidence is Evidence.QUORUM and not any(kind == "controller" for kind, _ in levels):
        levels["controller", UNKNOWN_LEVEL] = UNKNOWN_LEVEL
    return levels


def _describe(levels: Mapping[_Node, int], finalized: int) -> Iterable[str]:
    """Yield a clause about the nodes of each release."""
    by_release: dict[str, list[_Node]] = {}
    for node, level in levels.items():
        by_release.setdefault(_name(level, finalized), []).append(node)
    for name in sorted(by_release):
        yield _sentence(by_release[name], name)


def _name(level: int, finalized: int) -> str:
    if level == UNKNOWN_LEVEL:
        return "an unknown release"
    if excludes_4_3(finalized):
        return str(Release.KAFKA_4_4)
    return str(rules_for(releases_at(level)))


def _sentence(nodes: Iterable[_Node], what: str) -> str:
    """Return a clause such as ``brokers 1 and 2 run 4.3``."""
    by_kind: dict[str, list[int]] = {}
    for kind, node_id in nodes:
        by_kind.setdefault(kind, []).append(node_id)
    named = [_name_nodes(kind, ids) for kind, ids in by_kind.items()]
    is_one = sum(map(len, by_kind.values())) == 1
    return f"{' and '.join(named)} {'runs' if is_one else 'run'} {what}"


def _name_nodes(kind: str, ids: list[int]) -> str:
    if ids == [UNKNOWN_LEVEL]:
        return f"a {kind} that has not registered"
    listed = ", ".join(map(str, ids[:NODES_NAMED_MAX]))
    if len(ids) > NODES_NAMED_MAX:
        return f"{len(ids)} {kind}s ({listed}, …)"
    return f"{kind}{'s' if len(ids) > 1 else ''} {listed}"
