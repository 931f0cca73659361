"""The types of ACL messages that are not plain structures: errors, offsets and listings.

Source: KIP-140, KIP-290; Kafka 4.3 DescribeAclsRequest, CreateAclsRequest and others.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from authorizerd.acl.expected_offset import ANY_OFFSET
from authorizerd.acl.model import Acl, PatternType
from authorizerd.acl.steps import Steps, finish, free
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.kafka.acl_groups import AclGroups
from authorizerd.protocol.kafka.body_reader import BodyReader, nullable_string
from authorizerd.protocol.kafka.chunked_output import Output
from authorizerd.protocol.kafka.error_codes import ApiError
from authorizerd.protocol.kafka.wire_types import InSteps, Type

OFFSET_TAG: Final = int.from_bytes(b"ACL")
_INT16: Final = struct.Struct(">h")
_OFFSET: Final = struct.Struct(">q")
_TEXTS_KEPT: Final = 4096
ERROR_TEXTS_MAX: Final = 1000
"""The maximum number of different error texts kept per answer. Others are dropped."""


class ErrorType(NamedTuple):
    """An error code and its text, or None for success, which has the text ``success``."""

    success: str | None
    has_end: bool = False

    def compile(self, version: int, *, flexible: bool) -> Type:
        has_end = self.has_end and flexible
        end = b"\0" if has_end else b""
        succeeded = bytes(_INT16.size) + nullable_string(self.success, flexible=flexible) + end

        last, data = ApiError(0), b""

        def read(reader: BodyReader, _: str) -> ApiError | None:
            code = reader.int16("error_code")
            message = reader.nullable_string("error_message")
            if has_end:
                reader.end_structure()
            return _share_error(reader, code, message) if code else None

        def write(error: ApiError | None) -> bytes:
            nonlocal last, data
            if error is None:
                return succeeded
            if error is not last:  # most items of an answer fail for the same reason
                text = nullable_string(error.message, flexible=flexible)
                last, data = error, _INT16.pack(error.code) + text + end
            return data

        return Type(read, write, len(succeeded))


def _share_error(reader: BodyReader, code: int, message: str | None) -> ApiError:
    """Return a shared object for equal errors, since freeing many objects takes long."""
    known: ApiError | None = reader.shared.get((code, message))
    if known is None:
        if len(reader.shared) >= ERROR_TEXTS_MAX:
            message = None
        known = reader.shared.setdefault((code, message), ApiError(code, message))
    return known


class OffsetType(NamedTuple):
    """An offset of at least ``ANY_OFFSET``, which is the only valid value in a listing request."""

    is_question: bool = False

    def compile(self, version: int, *, flexible: bool) -> Type:
        return Type(self.read, _OFFSET.pack, _OFFSET.size)

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

    def compile(self, version: int, *, flexible: bool) -> Type:
        def read_in_steps(reader: BodyReader, what: str) -> Steps[list[Acl]]:
            acls: list[Acl] = []
            try:
                for _ in range(reader.array_length(what)):
                    yield from _read_resource(version, reader, acls)
                    if reader.ends_step():
                        yield
            except DecodeError:
                yield from free(acls)
                raise
            return acls

        def write_in_steps(acls: AclGroups | Sequence[Acl], output: Output) -> Steps[None]:
            if isinstance(acls, AclGroups):
                return acls.write(output)
            groups = AclGroups(version, flexible=flexible)
            groups.add(acls)
            return groups.write(output)

        def read(reader: BodyReader, what: str) -> list[Acl]:
            return finish(read_in_steps(reader, what))

        def write(acls: AclGroups | Sequence[Acl]) -> bytes:
            output = Output()
            finish(write_in_steps(acls, output))
            return b"".join(output.finish())

        in_steps = InSteps(read_in_steps, write_in_steps, lambda _: False)
        return Type(read, write, 1, in_steps)


def _shared_texts(reader: BodyReader) -> dict[str, str]:
    """Return the texts read so far, one copy of each."""
    if len(reader.shared) > _TEXTS_KEPT:
        reader.shared.clear()
    return reader.shared


def _read_resource(version: int, reader: BodyReader, acls: list[Acl]) -> Steps[None]:
    """Add the ACLs of one resource pattern."""
    resource_type = reader.int8("resource_type")
    name = reader.string("resource_name")
    pattern_type = reader.int8("pattern_type") if version else PatternType.LITERAL
    for _ in range(reader.array_length("acls")):
        principal, host = reader.string("principal"), reader.string("host")
        operation, permission_type = reader.int8("operation"), reader.int8("permission_type")
        reader.end_structure()
        texts = _shared_texts(reader)
        principal, host = texts.setdefault(principal, principal), texts.setdefault(host, host)
        acls.append(
            Acl(resource_type, name, pattern_type, principal, host, operation, permission_type)
        )
        if reader.ends_step():
            yield
    reader.end_structure()


_WINDOW_BYTES: Final = 8192
"""Creations are read from windows of this size, one window per step."""


def read_usual_creations(reader: BodyReader, most: int, creations: list[Any]) -> bool:
    """Read up to ``most`` creations of a flexible version, and stop at the first unusual one.

    A usual creation is ASCII, and has no null, no long string and no tagged fields. Return False if
    none was read; the codec reads every creation, and reports its faults. Why two ways? This one
    takes a fifth of the time, because it calls no function per field: in ASCII, positions in the
    text equal those in the bytes, and each size is one byte.
    """
    start = reader.position
    window = bytes(reader.buffer[start : start + _WINDOW_BYTES])
    if not window.isascii():
        return False
    text, share = window.decode("ascii"), _shared_texts(reader).setdefault
    position = 0
    try:
        for _ in range(most):
            # Each size is one more than that of its string, and 0 for null.
            name_size = window[position + 1]
            pattern_at = position + 1 + name_size
            principal_size = window[pattern_at + 1]
            host_at = pattern_at + 1 + principal_size
            host_size = window[host_at]
            operation_at = host_at + host_size
            tags = window[operation_at + 2]
            if tags or not (name_size and principal_size and host_size):
                break
            principal, host = text[pattern_at + 2 : host_at], text[host_at + 1 : operation_at]
            creations.append(
                Acl(
                    window[position],
                    text[position + 2 : pattern_at],
                    window[pattern_at],
                    share(principal, principal),
                    share(host, host),
                    window[operation_at],
                    window[operation_at + 1],
                )
            )
            position = operation_at + 3
    except IndexError:  # the window ends within the next creation
        pass
    reader.position = start + position
    return position > 0
