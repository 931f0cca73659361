"""The differences between the rules of Kafka's releases, and which rules apply.

Kafka 4.4 reads an ACL's host with a slash as a range of addresses (KIP-1276). Kafka 3.9 to 4.3
compare every host as text, so such an ACL never matches there. Nothing else differs, except that
Kafka 3.9 decides questions by ``User:*``, which the others and the daemon refuse.

**Invariant:** while it is not known which release of several judges, a question is allowed only if
each of them allows it.

Source: Kafka 4.3 and 4.4 StandardAuthorizerData.findResult.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from authorizerd.image.features import METADATA_VERSION_KNOWN


class Release(StrEnum):
    """The releases whose rules differ, oldest first. Each stands for all releases before the next
    one."""

    KAFKA_4_3 = "4.3"
    KAFKA_4_4 = "4.4"


READS_RANGES: Final = frozenset({Release.KAFKA_4_4})
"""The releases that read a host with a slash as a range of addresses."""

NEWEST_LEVEL: Final = METADATA_VERSION_KNOWN
"""The highest level of metadata.version of the newest release that was tested."""
_LEVEL_OF_4_4: Final = 32
"""The lowest level that 4.3 does not support in any form. 31 was never part of a release."""


def releases_at(level: int) -> frozenset[Release]:
    """Return the releases whose nodes may support metadata.version up to ``level``.

    A level above ``NEWEST_LEVEL`` belongs to a release that was not compared with these: any of
    them may behave like it. The same holds for an unknown level, which is below 0.
    """
    if 0 <= level < _LEVEL_OF_4_4 - 1:
        return frozenset((Release.KAFKA_4_3,))
    if _LEVEL_OF_4_4 <= level <= NEWEST_LEVEL:
        return frozenset((Release.KAFKA_4_4,))
    return frozenset(Release)


def excludes_4_3(finalized: int) -> bool:
    """Return True if no node runs 4.3 in a cluster that has finalized this level.

    A node that does not support the finalized level of metadata.version cannot start.
    """
    return finalized >= _LEVEL_OF_4_4


class ReleaseRules(msgspec.Struct, frozen=True, gc=False):
    """The rules by which ACLs are judged.

    Attributes:
        releases: the releases that may judge, oldest first; at least one.
        range_allows: whether an ALLOW for a range of addresses counts.
        range_denies: whether a DENY for a range of addresses counts.
        can_create_ranges: whether an ACL for a range can be created. Kafka 4.4 refuses it until
            metadata.version is 4.4-IV1; Kafka 4.3 creates an ACL with any host.
    """

    releases: tuple[Release, ...]
    range_allows: bool
    range_denies: bool
    can_create_ranges: bool

    def __str__(self) -> str:
        """Return the releases, such as ``4.3 or 4.4``."""
        return " or ".join(self.releases)


def rules_for(releases: Iterable[Release], *, has_range_level: bool = True) -> ReleaseRules:
    """Return the rules by which something is allowed only if each of ``releases`` allows it.

    Args:
        has_range_level: whether metadata.version is 4.4-IV1 or later.

    Raises:
        ValueError: there is no release.
    """
    named = set(releases)
    if not named:
        raise ValueError("the rules of no release: expected at least one")
    return ReleaseRules(
        releases=tuple(release for release in Release if release in named),
        range_allows=named <= READS_RANGES,
        range_denies=bool(named & READS_RANGES),
        can_create_ranges=has_range_level or not named & READS_RANGES,
    )


RULES: Final = {release: rules_for((release,)) for release in Release}
"""The rules of each single release."""
RULES_4_3: Final = RULES[Release.KAFKA_4_3]
RULES_4_4: Final = RULES[Release.KAFKA_4_4]
ANY_RELEASE: Final = rules_for(Release)
"""The rules while it is unknown which release judges: only what each of them allows is allowed."""
