"""The ACLs of a DescribeAcls response, grouped by resource pattern.

Source: KIP-140, KIP-290; Kafka 4.3 AclApis, DescribeAclsResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.steps import Steps
from authorizerd.protocol.kafka.body_reader import array_length, string
from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, Chunk, Output

_INT8: Final = struct.Struct(">b")
_TWO_INT8: Final = struct.Struct(">bb")
_SHARDS: Final = 64
_GROUPS_PER_STEP: Final = 256
_ONE_BYTE_EACH: Final = "latin-1"
"""The encoding in which each byte is one character."""
_CHARACTERS: Final = tuple(map(chr, range(256)))
"""By code. A negative int8 indexes from the end, and so finds the character of its byte."""
_SHORT_BYTES: Final = 0x7F
_SHORT_SIZES: Final = (
    tuple(f"\0{chr(size)}" for size in range(_SHORT_BYTES)),
    tuple(chr(size + 1) for size in range(_SHORT_BYTES)),
)
"""The sizes of short strings, not flexible and flexible."""
_JOINED_BYTES_MAX: Final = 4096


class _Group(msgspec.Struct, gc=False):
    """The entries of a resource pattern that has several. ``full`` has earlier ones."""

    entries: bytearray
    count: int = 1
    full: list[bytearray] | None = None

    def add(self, entry: str) -> None:
        if len(self.entries) >= CHUNK_BYTES:
            if self.full is None:
                self.full = []
            self.full.append(self.entries)
            self.entries = bytearray()
        self.entries += entry.encode(_ONE_BYTE_EACH)
        self.count += 1


class AclGroups:
    """The resources of a DescribeAcls response, collected while ACLs are found.

    They are grouped by resource pattern, in no order. Why many small dictionaries? Growing or
    freeing a large one would block the event loop. The garbage collector does not track the groups.

    Bytes are kept as texts with one character per byte, and encoded at the end. Why? Most names are
    ASCII and thus their own encoding, and Python joins texts faster than bytes. Most patterns have
    one entry, which is kept without a ``_Group``.
    """

    __slots__ = ("_flexible", "_shards", "_version")

    def __init__(self, version: int, *, flexible: bool) -> None:
        self._version = version
        self._flexible = flexible
        self._shards: dict[int, dict[str, str | _Group]] = {}
        """Keyed by codes and hash, see ``_codes_of``; each shard has its patterns by name."""

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs. Adding a thousand takes a millisecond.

        Raises:
            ValueError: a string exceeds Kafka's maximum.
        """
        flexible, shards = self._flexible, self._shards
        sizes = _SHORT_SIZES[flexible]
        end = "\0" if flexible else ""
        for acl in acls:
            principal, host = acl.principal, acl.host
            try:
                entry = (
                    f"{sizes[len(principal)]}{principal}{sizes[len(host)]}{host}"
                    f"{_CHARACTERS[acl.operation]}{_CHARACTERS[acl.permission_type]}{end}"
                )
                is_usual = entry.isascii()
            except IndexError:  # a text is too long for the table
                is_usual = False
            if not is_usual:
                entry = _entry(acl, flexible).decode(_ONE_BYTE_EACH)
            name = acl.resource_name
            # The name's hash is already computed; that of a new text would not be.
            key = (acl.resource_type * 256 + acl.pattern_type) * _SHARDS + hash(name) % _SHARDS
            shard = shards.get(key)
            if shard is None:
                shard = shards[key] = {}
            group = shard.setdefault(name, entry)
            if group is not entry:
                _add_to_group(shard, name, group, entry)

    def write(self, output: Output) -> Steps[None]:
        """Write the resources in steps, and free the added ACLs along the way.

        Raises:
            ValueError: a string exceeds Kafka's maximum.
        """
        shards = self._shards
        output.add(array_length(sum(map(len, shards.values())), flexible=self._flexible))
        while shards:
            key, shard = shards.popitem()
            groups = iter(shard.items())
            while chunk := [*islice(groups, _GROUPS_PER_STEP)]:
                yield from self._write_groups(*_codes_of(key), chunk, output)
                yield
            del shard, groups, chunk  # freeing them is a separate step
            yield

    def _write_groups(
        self,
        resource_type: int,
        pattern_type: int,
        groups: Sequence[tuple[str, str | _Group]],
        output: Output,
    ) -> Steps[None]:
        """Append the bytes of some patterns. The entries of large groups are not copied."""
        flexible, sizes = self._flexible, _SHORT_SIZES[self._flexible]
        one = array_length(1, flexible=flexible).decode(_ONE_BYTE_EACH)
        before = _CHARACTERS[resource_type]
        between = (_CHARACTERS[pattern_type] if self._version else "") + one
        assert self._version or pattern_type == PatternType.LITERAL, "version 0 has only LITERAL"
        end = "\0" if flexible else ""
        usual = [
            f"{before}{sizes[len(name)]}{name}{between}{entry}{end}"
            for name, entry in groups
            if type(entry) is str and len(name) < _SHORT_BYTES and name.isascii()
        ]
        part: list[Chunk] = ["".join(usual).encode(_ONE_BYTE_EACH)]
        if len(usual) < len(groups):
            for name, group in groups:
                if isinstance(group, str):
                    if len(name) < _SHORT_BYTES and name.isascii():
                        continue
                    group = _Group(bytearray(group.encode(_ONE_BYTE_EACH)))
                part.append(_resource(resource_type, name, pattern_type, self._version, flexible))
                part.append(array_length(group.count, flexible=flexible))
                if len(group.entries) <= _JOINED_BYTES_MAX and group.full is None:
                    part.append(group.entries)
                else:
                    output.add_whole(b"".join(part), *(group.full or ()), group.entries)
                    part = []
                    yield
                part.append(end.encode())
        output.add_whole(b"".join(part))


def _add_to_group(
    shard: dict[str, str | _Group], name: str, group: str | _Group, entry: str
) -> None:
    """Add an entry to a pattern that already has one."""
    if isinstance(group, str):
        shard[name] = group = _Group(bytearray(group.encode(_ONE_BYTE_EACH)))
    group.add(entry)


def _codes_of(key: int) -> tuple[int, int]:
    """Return the resource type and the pattern type of a shard."""
    codes = key // _SHARDS
    # Both are int8s, and the pattern type may be negative.
    pattern_type = (codes + 128) % 256 - 128
    return (codes - pattern_type) // 256, pattern_type


def _resource(
    resource_type: int, name: str, pattern_type: int, version: int, flexible: bool
) -> bytes:
    resource = _INT8.pack(resource_type) + string(name, flexible=flexible)
    if version:
        return resource + _INT8.pack(pattern_type)
    assert pattern_type == PatternType.LITERAL, "version 0 asks for nothing else"
    return resource


def _entry(acl: Acl, flexible: bool) -> bytes:
    entry = (
        string(acl.principal, flexible=flexible)
        + string(acl.host, flexible=flexible)
        + _TWO_INT8.pack(acl.operation, acl.permission_type)
    )
    return entry + b"\0" if flexible else entry
