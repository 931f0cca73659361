"""The output of ``kafka-acls --list``, ``authorizerd acls --list`` and ``rpk security acl list``.

Log lines before the first resource are skipped: kafka-acls prints them on the same output.

Only the order of the output differs from kafka-acls, which iterates over hash tables. Here patterns
are sorted by resource type code, name and pattern type; ACLs by principal, host, operation code and
permission code.

**Invariant:** a line must have exactly one interpretation; otherwise it is an error with its
number. Principals and names may contain commas, brackets and spaces. If it is unclear where the
principal ends, the line is rejected: a guess could turn one grant into another.

Source: Kafka 4.3 AclCommand; ResourcePattern and AccessControlEntry.toString.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from authorizerd.acl.model import Acl, Code, Operation, PatternType, PermissionType, ResourceType
from authorizerd.management.formats.model import AclsRead, AclsWritten, AclTextError, Loss, Scope
from authorizerd.management.formats.old_listing import HEADING, OldHeadings, parse_entry, read_table
from authorizerd.management.formats.values import keep_writable

_PRINCIPAL_HEADING: Final = re.compile(r"[ \t]*ACLs for principal `.*`")
_PRINCIPAL_LINE: Final = re.compile(r"^[ \t]*ACLs for principal `(.*)`\r?$", re.MULTILINE)
_PATTERN_HEADING: Final = re.compile(
    r"[ \t]*Current ACLs for resource `ResourcePattern\(resourceType=([A-Z_]+), name=(.*), "
    r"patternType=([A-Z_]+)\)`: ?"
)
_ENTRY: Final = re.compile(
    r"[ \t]*\(principal=(.*), operation=([A-Z_]+), permissionType=([A-Z_]+)\) ?"
)
_IS_LISTED: Final = re.compile(r"ACLs for |\(principal=| permission for operations: ")
"""Every line of a listing contains one of these, even if its beginning is missing."""
_HOST: Final = ", host="
_QUOTED_MAX: Final = 200
_IN_FILTERS: Final = ("ANY", "MATCH")
_UNKNOWN: Final = "kafka-acls shows the codes of other Kafka versions as UNKNOWN"


class Entry(NamedTuple):
    """An ACL without its resource pattern; entries are ordered by these fields."""

    principal: str
    host: str
    operation: Operation
    permission_type: PermissionType


def read(text: str) -> AclsRead:
    """Return the ACLs of a listing. kafka-acls prints UNKNOWN for codes of newer versions."""
    if HEADING.search(text):
        return read_table(text)
    acls = tuple(dict.fromkeys(read_listing(text)))
    losses = tuple(Loss(acl, _UNKNOWN) for acl in acls if not _is_named(acl))
    return AclsRead(acls, losses, _scope_of(text) if acls else Scope())


def _scope_of(text: str) -> Scope | None:
    """Return the principals of a listing with ``--principal``; None for everything."""
    principals = frozenset(match[1] for match in _PRINCIPAL_LINE.finditer(text))
    return Scope(principals) if principals else None


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a listing of the ACLs that it can express unambiguously."""
    kept, losses = keep_writable(acls, _why_not_listable)
    return AclsWritten(format_acls(kept), losses)


def _why_not_listable(acl: Acl) -> str | None:
    if not _is_named(acl):
        return _UNKNOWN
    if any("\n" in text for text in (acl.resource_name, acl.principal, acl.host)):
        return "a listing cannot contain a line break in a name"
    if f"{acl.principal}{_HOST}{acl.host}".split(_HOST) != [acl.principal, acl.host]:
        return f"in a listing, `{_HOST}` ends the principal"
    return None


def _is_named(acl: Acl) -> bool:
    """Return True if this version has a name for each code, and each can be in an ACL."""
    codes = (
        ResourceType.read(acl.resource_type),
        PatternType.read(acl.pattern_type),
        Operation.read(acl.operation),
        PermissionType.read(acl.permission_type),
    )
    return not any(code.name in _IN_FILTERS or code.name == "UNKNOWN" for code in codes)


def format_pattern(resource_type: int, name: str | None, pattern_type: int) -> str:
    """Return a resource pattern as Java prints it; unknown codes as UNKNOWN."""
    return (
        f"ResourcePattern(resourceType={ResourceType.read(resource_type).name}, name={name}, "
        f"patternType={PatternType.read(pattern_type).name})"
    )


def format_entry(entry: Acl | Entry) -> str:
    """Return an ACL without its resource pattern, as Java prints it; unknown codes as UNKNOWN."""
    return (
        f"(principal={entry.principal}, host={entry.host}, "
        f"operation={Operation.read(entry.operation).name}, "
        f"permissionType={PermissionType.read(entry.permission_type).name})"
    )


def format_acls(acls: Iterable[Acl]) -> str:
    """Return the listing of ACLs, each once. Unknown codes are shown as UNKNOWN."""
    entries_by_pattern: dict[tuple[int, str, int], set[Entry]] = defaultdict(set)
    for acl in acls:
        pattern = (
            ResourceType.read(acl.resource_type),
            acl.resource_name,
            PatternType.read(acl.pattern_type),
        )
        entry = Entry(
            acl.principal,
            acl.host,
            Operation.read(acl.operation),
            PermissionType.read(acl.permission_type),
        )
        entries_by_pattern[pattern].add(entry)
    return "".join(
        f"Current ACLs for resource `{format_pattern(*pattern)}`:\n"
        f"{format_entries(sorted(entries))}\n\n"
        for pattern, entries in sorted(entries_by_pattern.items())
    )


def format_entries(entries: Iterable[Acl | Entry]) -> str:
    """Return a line for each entry, without the last line break."""
    return "\n".join(f"\t{format_entry(entry)}" for entry in entries)


def read_listing(text: str) -> Iterator[Acl]:
    pattern: tuple[int, str, int] | None = None
    stray: tuple[int, str] | None = None
    has_begun = False
    old = OldHeadings()
    # splitlines would also cut names at Unicode's line separators.
    for number, ended in enumerate(text.split("\n"), 1):
        line = ended.removesuffix("\r")
        if not line.strip(" \t"):
            continue
        if _PRINCIPAL_HEADING.fullmatch(line):
            pattern, has_begun = None, True
        elif found := _parse_heading(number, line, old):
            pattern, has_begun = found, True
        elif entry := _parse_entry(number, line):
            if pattern is None:
                raise AclTextError(_line(number), "expected a resource before the first ACL")
            principal, host, *codes = entry
            yield Acl(*pattern, principal, host, *codes)
        elif has_begun or _IS_LISTED.search(line):
            raise _unexpected(number, line)
        else:
            stray = stray or (number, line)
    if stray and not has_begun:
        raise _unexpected(*stray)


def _unexpected(number: int, line: str) -> AclTextError:
    reason = f"expected a line of a listing of ACLs, found {_quoted(line)}"
    return AclTextError(_line(number), reason)


def _parse_heading(number: int, line: str, old: OldHeadings) -> tuple[int, str, int] | None:
    heading = _PATTERN_HEADING.fullmatch(line)
    if heading is None:
        return old.parse(_line(number), line)
    return (
        _code(number, ResourceType, heading[1]),
        heading[2],
        _code(number, PatternType, heading[3]),
    )


def _parse_entry(number: int, line: str) -> tuple[str, str, int, int] | None:
    entry = _ENTRY.fullmatch(line)
    return parse_entry(_line(number), line) if entry is None else _read_entry(number, entry)


def _read_entry(number: int, entry: re.Match[str]) -> tuple[str, str, int, int]:
    parts = entry[1].split(_HOST)
    if len(parts) < 2:
        raise AclTextError(_line(number), f"missing host: {_quoted(entry[0])}")
    if len(parts) > 2:
        raise AclTextError(
            _line(number),
            f"ambiguous line: `{_HOST}` occurs more than once in {_quoted(entry[0])}",
        )
    operation = _code(number, Operation, entry[2])
    permission_type = _code(number, PermissionType, entry[3])
    return parts[0], parts[1], operation, permission_type


def _code(number: int, codes: type[Code], name: str) -> int:
    """Return the code of a name; UNKNOWN is valid, as kafka-acls prints it for newer codes."""
    code = codes.named(name)
    if code is None or name in _IN_FILTERS:
        raise AclTextError(_line(number), f"unknown {codes.__name__} {name!r}")
    return int(code)


def _line(number: int) -> str:
    return f"line {number}"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _QUOTED_MAX else f"{line[:_QUOTED_MAX]}…")
