"""The resource patterns of a set of ACLs, and which other patterns they cover."""

from __future__ import annotations

from collections.abc import Iterable

from authorizerd.acl.model import WILDCARD, Acl, PatternType
from authorizerd.acl.patterns import is_wildcard


class PatternSet:
    """The resource patterns of some ACLs."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._patterns = {(acl.resource_type, acl.pattern_type, acl.resource_name) for acl in acls}
        prefixed = PatternType.PREFIXED
        self._lengths = {len(name) for _, kind, name in self._patterns if kind == prefixed}

    def covers(self, acl: Acl) -> bool:
        """Return True if one pattern matches every name that the pattern of ``acl`` matches.

        Kafka's wildcard skips names that begin with ``*``, which a prefix ``*`` matches.
        """
        kind, name = acl.resource_type, acl.resource_name
        if (kind, acl.pattern_type, name) in self._patterns:
            return True
        if is_wildcard(acl.pattern_type, name):
            return (kind, PatternType.PREFIXED, "") in self._patterns
        has_wildcard = (kind, PatternType.LITERAL, WILDCARD) in self._patterns
        if has_wildcard and name and not name.startswith(WILDCARD):
            return True
        return any(
            (kind, PatternType.PREFIXED, name[:length]) in self._patterns
            for length in self._lengths
            if length <= len(name)
        )
