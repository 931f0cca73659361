"""The ACL responses, from results to bytes, in steps, since a describe may find every ACL.

The bytes equal a broker's, including its empty text for success (KIP-140 specifies null). Version 0
has no pattern type: its answers contain only LITERAL patterns. A request with our tagged field is
answered with it, in an end that no broker sends: see ``offset_tag``.

Source: KIP-140, KIP-290; Kafka 4.3 AclApis, DescribeAclsResponse, DeleteAclsResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.steps import Steps
from authorizerd.protocol.kafka.api import APIS, NO_TAGS, ApiKey
from authorizerd.protocol.kafka.body_reader import array_length, nullable_string, string
from authorizerd.protocol.kafka.chunked_output import CHUNK_BYTES, Chunk, Items
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ApiError
from authorizerd.protocol.kafka.offset_tag import encode_end
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP

_NOT_THROTTLED: Final = bytes(4)
_NO_ERROR: Final = bytes(2)
_INT8: Final = struct.Struct(">b")
_TWO_INT8: Final = struct.Struct(">bb")
_INT16: Final = struct.Struct(">h")
_SHARDS: Final = 64
_GROUPS_PER_STEP: Final = 256
_ONE_BYTE_EACH: Final = "latin-1"
"""The encoding in which each byte is one character."""
_CHARACTERS: Final = tuple(map(chr, range(256)))
"""By code. A negative int8 is an index from the end, and so finds the character of its byte."""
_SHORT_BYTES: Final = 0x7F
_SHORT_SIZES: Final = (
    tuple(f"\0{chr(size)}" for size in range(_SHORT_BYTES)),
    tuple(chr(size + 1) for size in range(_SHORT_BYTES)),
)
"""The sizes of short strings, not flexible and flexible."""
_PIECES_PER_STEP: Final = 2 * ITEMS_PER_STEP
_JOINED_BYTES_MAX: Final = 4096
TEXTS_BYTES_MAX: Final = 1024 * 1024
"""The maximum size of all error texts in one answer.

Errors beyond it have a code but no text, and clients print the meaning of the code. So a request
with many small items cannot cause an answer many times its size.
"""


class _Texts:
    """Encode errors, with their texts up to ``TEXTS_BYTES_MAX``."""

    __slots__ = ("_bytes_left", "_flexible")

    def __init__(self, flexible: bool) -> None:
        self._bytes_left = TEXTS_BYTES_MAX
        self._flexible = flexible

    def error(self, error: ApiError) -> bytes:
        text = None if error.message is None else error.message[:TEXT_CHARACTERS_MAX]
        encoded = nullable_string(text, flexible=self._flexible)
        self._bytes_left -= len(encoded)
        if self._bytes_left < 0:
            self._bytes_left = 0
            encoded = nullable_string(None, flexible=self._flexible)
        return _INT16.pack(error.code) + encoded


class MatchingAcl(msgspec.Struct, frozen=True, gc=False):
    """An ACL that a filter matched, and the error if it was not removed."""

    acl: Acl
    error: ApiError | None = None


class FilterResult(msgspec.Struct, frozen=True, gc=False):
    """The result of one filter of a delete: its matches, or why it was not applied."""

    matches: Items[MatchingAcl] = ()
    error: ApiError | None = None


class _Group(msgspec.Struct, gc=False):
    """The entries of a resource pattern that has several. ``full`` has those before ``entries``."""

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


class DescribeAclsBody:
    """The body of a DescribeAcls response, built while ACLs are found.

    They are grouped by resource pattern, in no order. Why many small dictionaries? Growing or
    freeing a large one would block the event loop. The groups are not tracked by the garbage
    collector.

    Bytes are kept as texts with one character per byte, and encoded at the end. Why? Most names are
    ASCII and thus their own encoding, and Python joins texts faster than bytes. Most patterns have
    one entry, which is kept without a ``_Group``.
    """

    __slots__ = ("_flexible", "_shards", "_version")

    def __init__(self, version: int) -> None:
        self._version = version
        self._flexible = APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version)
        self._shards: dict[int, dict[str, str | _Group]] = {}
        """By codes and hash: see ``_codes_of``. Each has the patterns by name."""

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs. A thousand take a millisecond.

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
            except IndexError:  # a text is long
                is_usual = False
            if not is_usual:
                entry = _entry(acl, flexible).decode(_ONE_BYTE_EACH)
            name = acl.resource_name
            # The hash of the name is known already; that of a text made here would not be.
            key = (acl.resource_type * 256 + acl.pattern_type) * _SHARDS + hash(name) % _SHARDS
            shard = shards.get(key)
            if shard is None:
                shard = shards[key] = {}
            group = shard.setdefault(name, entry)
            if group is not entry:
                _add_to_group(shard, name, group, entry)

    def encode(self, offset: int | None = None) -> Steps[list[Chunk]]:
        """Return, in steps, the body in chunks. Free the added ACLs on the way.

        Args:
            offset: the log offset of the listing, or None to leave it out.

        Raises:
            ValueError: a string exceeds Kafka's maximum.
        """
        flexible, shards = self._flexible, self._shards
        count = array_length(sum(map(len, shards.values())), flexible=flexible)
        head = _NOT_THROTTLED + _NO_ERROR + string("", flexible=flexible) + count
        chunks: list[Chunk] = [head]
        while shards:
            key, shard = shards.popitem()
            groups = iter(shard.items())
            while some := [*islice(groups, _GROUPS_PER_STEP)]:
                yield from self._encode_groups(*_codes_of(key), some, chunks)
                yield
            del shard, groups, some  # freeing them is a step of its own
            yield
        chunks.append(encode_end(offset, flexible=flexible))
        return chunks

    def _encode_groups(
        self,
        resource_type: int,
        pattern_type: int,
        groups: Sequence[tuple[str, str | _Group]],
        chunks: list[Chunk],
    ) -> Steps[None]:
        """Append the bytes of some patterns. The entries of large groups are not copied."""
        flexible, sizes = self._flexible, _SHORT_SIZES[self._flexible]
        one = array_length(1, flexible=flexible).decode(_ONE_BYTE_EACH)
        before = _CHARACTERS[resource_type]
        between = (_CHARACTERS[pattern_type] if self._version else "") + one
        assert self._version or pattern_type == PatternType.LITERAL, "version 0 has no other"
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
                    chunks.append(b"".join(part))
                    chunks += group.full or ()
                    chunks.append(group.entries)
                    part = []
                    yield
                part.append(end.encode())
        chunks.append(b"".join(part))


def _add_to_group(
    shard: dict[str, str | _Group], name: str, group: str | _Group, entry: str
) -> None:
    """Add a further entry of a pattern."""
    if isinstance(group, str):
        shard[name] = group = _Group(bytearray(group.encode(_ONE_BYTE_EACH)))
    group.add(entry)


def _codes_of(key: int) -> tuple[int, int]:
    """Return the resource type and the pattern type of a shard."""
    codes = key // _SHARDS
    # Both are int8s, and the pattern type may be negative.
    pattern_type = (codes + 128) % 256 - 128
    return (codes - pattern_type) // 256, pattern_type


def encode_describe_acls_error(version: int, error: ApiError) -> bytes:
    """Return the body of a DescribeAcls response with only an error."""
    flexible = APIS[ApiKey.DESCRIBE_ACLS].is_flexible(version)
    no_resources = array_length(0, flexible=flexible)
    end = b"\0" if flexible else b""
    return b"".join((_NOT_THROTTLED, _Texts(flexible).error(error), no_resources, end))


def encode_all_created(version: int, count: int, offset: int | None = None) -> list[Chunk]:
    """Return the body of a CreateAcls response whose ``count`` creations have all succeeded.

    Args:
        offset: see ``encode_create_acls``.
    """
    flexible = APIS[ApiKey.CREATE_ACLS].is_flexible(version)
    created = _NO_ERROR + string("", flexible=flexible) + (NO_TAGS if flexible else b"")
    head = _NOT_THROTTLED + array_length(count, flexible=flexible)
    return [b"".join((head, created * count, encode_end(offset, flexible=flexible)))]


def encode_create_acls(
    version: int, results: Items[ApiError | None], offset: int | None = None
) -> Steps[list[Chunk]]:
    """Return, in steps, the body of a CreateAcls response in chunks.

    Args:
        results: for each creation, in order, its error, or None for success.
        offset: the log offset of the state after the request, or None to leave it out.
    """
    return _gather(_create_chunks(APIS[ApiKey.CREATE_ACLS].is_flexible(version), results, offset))


def encode_delete_acls(
    version: int, results: Items[FilterResult], offset: int | None = None
) -> Steps[list[Chunk]]:
    """Return, in steps, the body of a DeleteAcls response in chunks.

    Args:
        results: one for each filter, in order.
        offset: see ``encode_create_acls``.

    Raises:
        ValueError: a string exceeds Kafka's maximum.
    """
    return _gather(_delete_chunks(version, results, offset))


def _create_chunks(
    flexible: bool, results: Items[ApiError | None], offset: int | None
) -> Iterator[Chunk]:
    end = b"\0" if flexible else b""
    created = _NO_ERROR + string("", flexible=flexible) + end
    texts = _Texts(flexible)
    yield _NOT_THROTTLED + array_length(len(results), flexible=flexible)
    for error in results:
        yield created if error is None else texts.error(error) + end
    yield encode_end(offset, flexible=flexible)


def _delete_chunks(
    version: int, results: Items[FilterResult], offset: int | None
) -> Iterator[Chunk]:
    flexible = APIS[ApiKey.DELETE_ACLS].is_flexible(version)
    end = b"\0" if flexible else b""
    # Unlike in CreateAcls, a broker sends null as the text of a success.
    succeeded = _NO_ERROR + nullable_string(None, flexible=flexible)
    texts = _Texts(flexible)
    yield _NOT_THROTTLED + array_length(len(results), flexible=flexible)
    for result in results:
        yield succeeded if result.error is None else texts.error(result.error)
        yield array_length(len(result.matches), flexible=flexible)
        for match in result.matches:
            yield succeeded if match.error is None else texts.error(match.error)
            acl = match.acl
            resource_type, name, pattern_type = (
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
            )
            yield _resource(resource_type, name, pattern_type, version, flexible)
            yield _entry(acl, flexible)
        yield end
    yield encode_end(offset, flexible=flexible)


def _gather(chunks: Iterator[Chunk]) -> Steps[list[Chunk]]:
    """Return, in steps, the chunks, with small ones joined."""
    whole: list[Chunk] = []
    part: list[Chunk] = []
    for chunk in chunks:
        part.append(chunk)
        # A large chunk is passed on unchanged: copying many of them would make the step too long.
        if len(chunk) > _JOINED_BYTES_MAX:
            whole.append(b"".join(part[:-1]))
            whole.append(chunk)
        elif len(part) < _PIECES_PER_STEP:
            continue
        else:
            whole.append(b"".join(part))
        part.clear()
        yield
    whole.append(b"".join(part))
    return whole


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
