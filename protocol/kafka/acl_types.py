"""The types of the fields of ACL messages, as bytes.

The types of ACLs, filters and matches are written out, since a message may have thousands: the
codec alone takes up to twice as long, because it calls a function per field.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest, CreateAclsRequest and others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from authorizerd.acl.change_guard import ANY_OFFSET
from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.acl.steps import Steps, free
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_groups import AclGroups
from authorizerd.protocol.kafka.arrays import array_of
from authorizerd.protocol.kafka.body_reader import (
    BodyReader,
    array_length,
    nullable_string,
    string,
)
from authorizerd.protocol.kafka.chunked_output import Items, Output
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.step_sizes import ITEMS_PER_STEP
from authorizerd.protocol.kafka.usual_creations import read_usual_creations
from authorizerd.protocol.kafka.wire_types import INT8_BYTES, Plain, Stepped

OFFSET_TAG: Final = int.from_bytes(b"ACL")
_INT16: Final = struct.Struct(">h")
_OFFSET: Final = struct.Struct(">q")
_TEXTS_KEPT: Final = 4096
_PARTS_PER_STEP: Final = 2 * ITEMS_PER_STEP


class ErrorType(NamedTuple):
    """An error code and its text, or None for success, which has the text ``success``."""

    success: str | None
    has_end: bool = False

    def compile(self, version: int, *, flexible: bool) -> Plain:
        has_end = self.has_end and flexible
        end = b"\0" if has_end else b""
        succeeded = bytes(_INT16.size) + nullable_string(self.success, flexible=flexible) + end

        last, data = ApiError(0), b""

        def read(reader: BodyReader, _: str) -> ApiError | None:
            code = reader.int16("error_code")
            message = reader.nullable_string("error_message")
            if has_end:
                reader.end_structure()
            return ApiError(code, message) if code else None

        def write(error: ApiError | None) -> bytes:
            nonlocal last, data
            if error is None:
                return succeeded
            if error is not last:  # most items of an answer fail for the same reason
                text = nullable_string(error.message, flexible=flexible)
                last, data = error, _INT16.pack(error.code) + text + end
            return data

        return Plain(read, write, len(succeeded))


class OffsetType(NamedTuple):
    """An offset of at least ``ANY_OFFSET``. A request for a listing may only have that."""

    is_question: bool = False

    def compile(self, version: int, *, flexible: bool) -> Plain:
        return Plain(self.read, _OFFSET.pack, _OFFSET.size)

    def read(self, reader: BodyReader, _: str) -> int:
        start = reader.position
        if reader.remaining != _OFFSET.size:
            raise DecodeError(
                f"tag {OFFSET_TAG}: expected an int64 of {_OFFSET.size} bytes, found"
                f" {reader.remaining} bytes",
                start,
            )
        offset = reader.int64("offset")
        if offset < ANY_OFFSET:
            raise DecodeError(
                f"tag {OFFSET_TAG}: expected an offset, or {ANY_OFFSET} for any, found {offset}",
                start,
            )
        if self.is_question and offset != ANY_OFFSET:
            raise DecodeError(
                f"tag {OFFSET_TAG}: expected {ANY_OFFSET} in a DescribeAcls request, found"
                f" {offset}",
                start,
            )
        return offset


class ListingType:
    """ACLs, grouped by resource pattern."""

    def compile(self, version: int, *, flexible: bool) -> Stepped:
        def read(reader: BodyReader, what: str) -> Steps[list[Acl]]:
            acls: list[Acl] = []
            texts: dict[str, str] = {}
            try:
                for _ in range(reader.array_length(what)):
                    yield from _read_resource(version, reader, acls, texts)
                    if reader.ends_step():
                        yield
            except DecodeError:
                yield from free(acls)
                raise
            return acls

        def write(acls: AclGroups | Sequence[Acl], output: Output) -> Steps[None]:
            if isinstance(acls, AclGroups):
                return acls.write(output)
            groups = AclGroups(version, flexible=flexible)
            groups.add(acls)
            return groups.write(output)

        return Stepped(read, write, 1)


def _read_resource(
    version: int, reader: BodyReader, acls: list[Acl], texts: dict[str, str]
) -> Steps[None]:
    """Add the ACLs of one resource pattern. ``texts`` has one copy of each recurring text."""
    resource_type = reader.int8("resource_type")
    name = reader.string("resource_name")
    pattern_type = reader.int8("pattern_type") if version else PatternType.LITERAL
    for _ in range(reader.array_length("acls")):
        principal, host = reader.string("principal"), reader.string("host")
        operation, permission_type = reader.int8("operation"), reader.int8("permission_type")
        reader.end_structure()
        if len(texts) > _TEXTS_KEPT:
            texts.clear()
        principal, host = texts.setdefault(principal, principal), texts.setdefault(host, host)
        acls.append(
            Acl(resource_type, name, pattern_type, principal, host, operation, permission_type)
        )
        if reader.ends_step():
            yield
    reader.end_structure()


class MatchingAcl(msgspec.Struct, frozen=True, gc=False):
    """An ACL that a filter matched, and the error if it was not removed."""

    acl: Acl
    error: ApiError | None = None


class FilterResult(msgspec.Struct, frozen=True, gc=False):
    """The result of one filter of a delete: its matches, or why it was not applied."""

    matches: Items[MatchingAcl] = ()
    error: ApiError | None = None


def _item_type(
    make: Callable[..., Any], version: int, *, flexible: bool, has_end: bool, nullable: bool = False
) -> Plain:
    """Return the type of an ACL, or of a filter, whose texts may be null."""
    end, codes = NO_TAGS if has_end else b"", INT8_BYTES
    read_text = BodyReader.nullable_string if nullable else BodyReader.string
    write_text: Callable[..., bytes] = nullable_string if nullable else string

    def read(reader: BodyReader, _: str) -> Any:  # noqa: ANN401 - what ``make`` makes
        item = make(
            reader.int8("resource_type"),
            read_text(reader, "resource_name"),
            reader.int8("pattern_type") if version else PatternType.LITERAL,
            read_text(reader, "principal"),
            read_text(reader, "host"),
            reader.int8("operation"),
            reader.int8("permission_type"),
        )
        if has_end:
            reader.end_structure()
        return item

    def write(item: Acl | AclFilter) -> bytes:
        return b"".join(
            (
                codes[item.resource_type],
                write_text(item.resource_name, flexible=flexible),
                codes[item.pattern_type] if version else b"",
                write_text(item.principal, flexible=flexible),
                write_text(item.host, flexible=flexible),
                codes[item.operation],
                codes[item.permission_type],
                end,
            )
        )

    # Empty texts: the codes, and three lengths.
    return Plain(read, write, (4 if version else 3) + (3 if flexible else 6) + len(end))


def _match_type(version: int, *, flexible: bool) -> Plain:
    error_type = ErrorType(None).compile(version, flexible=flexible)
    acl_type = _item_type(Acl, version, flexible=flexible, has_end=flexible)

    def read(reader: BodyReader, what: str) -> MatchingAcl:
        error = error_type.read(reader, what)
        return MatchingAcl(acl_type.read(reader, what), error)

    def write(match: MatchingAcl) -> bytes:
        return error_type.write(match.error) + acl_type.write(match.acl)

    return Plain(read, write, error_type.bytes_min + acl_type.bytes_min)


class CreationsType:
    """The ACLs of a CreateAcls request."""

    def compile(self, version: int, *, flexible: bool) -> Stepped:
        item = _item_type(Acl, version, flexible=flexible, has_end=flexible)
        return array_of(item, flexible=flexible, read_many=read_usual_creations)


class FiltersType:
    """The filters of a DeleteAcls request."""

    def compile(self, version: int, *, flexible: bool) -> Stepped:
        item = _item_type(AclFilter, version, flexible=flexible, has_end=flexible, nullable=True)
        return array_of(item, flexible=flexible)


class FilterType:
    """The filter of a DescribeAcls request, whose end is that of the request."""

    def compile(self, version: int, *, flexible: bool) -> Plain:
        return _item_type(AclFilter, version, flexible=flexible, has_end=False, nullable=True)


class FilterResultsType:
    """The results of a DeleteAcls response."""

    def compile(self, version: int, *, flexible: bool) -> Stepped:
        # Unlike in CreateAcls, a broker sends null as the text of a success.
        error_type = ErrorType(None).compile(version, flexible=flexible)
        match_type = _match_type(version, flexible=flexible)
        read = partial(_read_results, error_type, match_type)
        write = partial(_write_results, error_type, match_type, flexible)
        return Stepped(read, write, 1)


def _read_results(
    error_type: Plain, match_type: Plain, reader: BodyReader, what: str
) -> Steps[list[FilterResult]]:
    results: list[FilterResult] = []
    read_error, read_match, ends_step = error_type.read, match_type.read, reader.ends_step
    for _ in range(reader.array_length(what)):
        error = read_error(reader, what)
        matches: list[MatchingAcl] = []
        try:
            for _ in range(reader.array_length("matching_acls", match_type.bytes_min)):
                matches.append(read_match(reader, what))
                if ends_step():
                    yield
        except DecodeError:
            yield from free(matches)
            raise
        reader.end_structure()
        results.append(FilterResult(matches, error))
        if ends_step():
            yield
    return results


def _write_results(
    error_type: Plain,
    match_type: Plain,
    flexible: bool,
    results: Items[FilterResult],
    output: Output,
) -> Steps[None]:
    write_error, write_match = error_type.write, match_type.write
    end = NO_TAGS if flexible else b""
    parts = [array_length(len(results), flexible=flexible)]
    for result in results:
        parts.append(write_error(result.error))
        parts.append(array_length(len(result.matches), flexible=flexible))
        for match in result.matches:
            parts.append(write_match(match))
            if len(parts) >= _PARTS_PER_STEP:
                output.add(b"".join(parts))
                parts.clear()
                yield
        parts.append(end)
        if len(parts) >= _PARTS_PER_STEP:
            output.add(b"".join(parts))
            parts.clear()
            yield
    output.add(b"".join(parts))
