"""Oracle: what a record proves about ACLs, from the text of logs to the exit code.

It shares no code with the product: it has its own expression for lines, judges every event by a
scan of all ACLs, and counts with plain dictionaries. An ACL is a tuple of texts: principal, host,
operation, permission, resource type, resource name, pattern type.
"""

import gzip
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

AclFields = tuple[str, str, str, str, str, str, str]
Key = tuple[str, str | None, str, str, str, str]
"""Principal, host, operation, resource type, resource name, pattern type."""

SHARE_MAX: Final = 0.05
_LINE: Final = re.compile(
    r"\[(.{23})\] \w+ Principal = (.+) is (Allowed|Denied) [Oo]peration = (\w+) from host = (\S+) "
    r"on resource = (\w+):(LITERAL|PREFIXED):(.+?)( for request = \w+ with resourceRefCount = "
    r"\d+ based on rule \w+ \(kafka\.authorizer\.logger\))?"
)
_OPERATIONS: Final = {
    "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
}  # fmt: skip
_IMPLIED: Final = {
    "DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"},
    "DESCRIBE_CONFIGS": {"ALTER_CONFIGS"},
}


@dataclass
class Asked:
    """The times of one request's events, in milliseconds since 1970."""

    allowed: list[int] = field(default_factory=list)
    denied: list[int] = field(default_factory=list)

    @property
    def all(self) -> list[int]:
        return self.allowed + self.denied


@dataclass
class Use:
    """The use of an ACL: the events of each request, the time of the last one, and the names."""

    alone: list[int] = field(default_factory=list)
    with_others: list[int] = field(default_factory=list)
    last_ms: int = 0
    names: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Set:
    """ACLs, and the settings of their brokers."""

    acls: Sequence[AclFields]
    super_users: Collection[str]
    is_open: bool
    releases: Sequence[str]

    def answers(self, key: Key) -> list[bool]:
        """Return the answer of each release."""
        return [self._allows(key, release == "4.4") for release in self.releases]

    def _allows(self, key: Key, reads_ranges: bool) -> bool:
        if key[0] in self.super_users:
            return True
        found = [acl for acl in self.acls if _matches(acl, key)]
        speaking = [acl for acl in found if _speaks(acl, key, reads_ranges)]
        if speaking:
            return all(acl[3] == "ALLOW" for acl in speaking)
        return self.is_open and not found

    def matching(self, key: Key) -> list[AclFields]:
        """Return the ACLs that decide a request by any release."""
        newest = "4.4" in self.releases
        return [acl for acl in self.acls if _matches(acl, key) and _speaks(acl, key, newest)]


def _matches(acl: AclFields, key: Key) -> bool:
    *_, kind, name, pattern = acl
    if pattern == "PREFIXED":
        return kind == key[3] and key[4].startswith(name)
    return kind == key[3] and (name == key[4] or (name == "*" and not key[4].startswith("*")))


def _speaks(acl: AclFields, key: Key, reads_ranges: bool) -> bool:
    principal, host, operation, permission, *_ = acl
    asked, allows = key[2], permission == "ALLOW"
    operations = {"ALL", asked} | (_IMPLIED.get(asked, set()) if allows else set())
    if principal not in (key[0], "User:*") or operation not in operations:
        return False
    if key[1] is None:  # an unknown host: whatever may deny it does
        return host == "*" or (not allows and (reads_ranges or "/" not in host))
    if reads_ranges and "/" in host:
        return ip_address(key[1]) in ip_network(host)
    return host in ("*", key[1])


def read_logs(folder: Path) -> dict[Key, Asked]:
    """Return the requests in the logs of a folder."""
    found: dict[Key, Asked] = {}
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        for match in filter(None, map(_LINE.fullmatch, text.split("\n"))):
            time, principal, answer, operation, host, kind, pattern, name, end = match.groups()
            if not end and kind == "Topic" and not re.fullmatch(r"[\w.-]+", name, re.ASCII):
                continue  # the line may continue after an unknown end of the name
            at = datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
            key = (
                principal, None if host == "unknown" else host, _upper(operation), _upper(kind),
                name, pattern,
            )  # fmt: skip
            asked = found.setdefault(key, Asked())
            times = asked.allowed if answer == "Allowed" else asked.denied
            times.append(round(at.timestamp() * 1000))
    return found


def _upper(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def why_unasked(key: Key) -> str | None:
    """Return why ACLs cannot decide a request, in the words of the reports."""
    if key[0] == "User:*":
        return "principal User:*"
    if key[5] != "LITERAL":
        return "pattern type is not LITERAL"
    return None if key[2] in _OPERATIONS else "unknown operation"


def count(some: Iterable[tuple[Any, int]]) -> dict[Any, tuple[int, int]]:
    """Return the events and the tuples of each name."""
    events, tuples = Counter[Any](), Counter[Any]()
    for name, number in some:
        events[name] += number
        tuples[name] += 1
    return {name: (events[name], tuples[name]) for name in tuples}


def find_changes(
    asked: Mapping[Key, Asked], candidate: Set, baseline: Set | None
) -> dict[str, dict[Key, list[int]]]:
    """Return the times of the events that change, by the kind of change."""
    changes: dict[str, dict[Key, list[int]]] = {"newly_denied": {}, "newly_allowed": {}}
    for key, one in asked.items():
        if why_unasked(key):
            continue
        new = candidate.answers(key)
        if baseline is None:
            kind, times = (
                ("newly_allowed", one.denied) if all(new) else ("newly_denied", one.allowed)
            )
        else:
            pairs = {*zip(baseline.answers(key), new, strict=True)}
            kind = "newly_denied" if (True, False) in pairs else "newly_allowed"
            times = one.all if pairs - {(True, True), (False, False)} else []
        if times:
            changes[kind][key] = times
    return changes


def count_agreement(asked: Mapping[Key, Asked], acls: Set) -> tuple[int, int]:
    """Return the events that ACLs decide differently from the record, and all that they decide."""
    differing = judged = 0
    for key, one in asked.items():
        if not why_unasked(key) and key[0] not in acls.super_users:
            judged += len(one.all)
            answers = set(acls.answers(key))
            if len(answers) == 1:
                differing += len(one.denied if True in answers else one.allowed)
    return differing, judged


def whatif_code(asked: Mapping[Key, Asked], candidate: Set, baseline: Set | None) -> int:
    """Return the exit code of a what-if."""
    if find_changes(asked, candidate, baseline)["newly_denied"]:
        return 3
    if baseline is not None:
        differing, judged = count_agreement(asked, baseline)
        if differing > SHARE_MAX * judged:
            return 3
    allowed = (
        one.allowed
        for key, one in asked.items()
        if not why_unasked(key) and key[0] not in candidate.super_users
    )
    return 0 if any(allowed) else 5


def find_uses(asked: Mapping[Key, Asked], acls: Set) -> dict[AclFields, Use]:
    """Return the use of each used ACL."""
    uses: dict[AclFields, Use] = {}
    for key, one in asked.items():
        if why_unasked(key) or key[0] in acls.super_users:
            continue
        matching = acls.matching(key)
        for permission, times in (("ALLOW", one.allowed), ("DENY", one.denied)):
            deciding = [acl for acl in matching if acl[3] == permission] if times else []
            for acl in deciding:
                use = uses.setdefault(acl, Use())
                (use.alone if len(deciding) == 1 else use.with_others).append(len(times))
                use.last_ms = max(use.last_ms, *times)
                use.names.add(key[4])
    return uses
