"""ACLs in lines of JSON: an object in each line, as the web console downloads them.

    {"resource_type":"TOPIC","resource_name":"orders","pattern_type":"LITERAL",
     "principal":"User:alice","host":"*","operation":"READ","permission_type":"ALLOW"}

(Here in two lines, to fit.) An object is an entry of a ``document``, with the same defaults.

**Invariant:** as of ``document``, except that an ACL may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from msgspec.structs import astuple

from authorizerd.acl.formats.document import read_entry
from authorizerd.acl.formats.limits import why_not_creatable
from authorizerd.acl.formats.model import AclsRead, AclsWritten, AclTextError, Scope
from authorizerd.acl.formats.parsing import parse_json
from authorizerd.acl.formats.writing import keep_writable
from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType


def read(text: str) -> AclsRead:
    """Return the ACLs of the lines.

    Raises:
        AclTextError: a line is not JSON, or not an entry.
    """
    acls = tuple(dict.fromkeys(_read_lines(text)))
    return AclsRead(acls, scope=None if acls else Scope())


def _read_lines(text: str) -> Iterator[Acl]:
    # splitlines would also cut names at Unicode's line separators, which JSON may contain.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            value = parse_json(line)
        except AclTextError as error:
            raise AclTextError(place, error.reason) from error
        yield from read_entry(place, value)


def write(acls: Sequence[Acl]) -> AclsWritten:
    """Return a line for each ACL. The losses are those that Kafka cannot create."""
    kept, losses = keep_writable(acls, why_not_creatable)
    return AclsWritten("".join(f"{_write(acl)}\n" for acl in sorted(kept, key=astuple)), losses)


def _write(acl: Acl) -> str:
    fields = {
        "resource_type": ResourceType(acl.resource_type).name,
        "resource_name": acl.resource_name,
        "pattern_type": PatternType(acl.pattern_type).name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name,
        "permission_type": PermissionType(acl.permission_type).name,
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
