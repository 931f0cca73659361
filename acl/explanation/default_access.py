"""Whether allow.everyone.if.no.acl.found applies to a resource, and the patterns that prevent it.

Source: Kafka 4.3 StandardAuthorizerData: the default applies only if no ACL of any principal
matches the resource.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.model import DefaultAccess, PatternCount
from authorizerd.acl.explanation.scan import (
    iterate_patterns,
)
from authorizerd.acl.model import Question
from authorizerd.acl.patterns import get_weight
from authorizerd.acl.snapshot import AclSnapshot

PATTERNS_LISTED_MAX: Final = 5


def find_default_access(
    snapshot: AclSnapshot, settings: AuthorizerSettings, question: Question
) -> DefaultAccess:
    """Return what the setting means for the resource of ``question``."""
    resources = snapshot.types[question.resource_type].resources
    name = question.resource_name
    listed: list[PatternCount] = []
    total = 0
    for pattern_type, pattern_name in iterate_patterns([resources], name):
        count = get_weight(resources, pattern_type, pattern_name)
        total += count
        if count and len(listed) < PATTERNS_LISTED_MAX:
            listed.append(PatternCount(pattern_type, pattern_name, count))
    return DefaultAccess(
        is_set=settings.allow_everyone_if_no_acl_found,
        acl_count=total,
        patterns=tuple(listed),
    )
