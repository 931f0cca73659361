"""The ACL requests and responses, on a server and on a client.

Codes are kept unchanged; ``acl.validation`` checks them. Version 0 has no pattern type: it creates,
describes, deletes and lists LITERAL patterns only, whatever the name. The bytes equal a broker's,
including its empty text for success (KIP-140 specifies null).

**Our tagged field.** A request carries the log offset that its sender has seen, and a response
carries the offset of the state that it shows or has written. Kafka ignores tagged fields that it
does not know, so its brokers answer without this one. KIP-482 reserves no range of tags for others.
Kafka's own tags are contiguous from 0 in each structure, and vendors of Kafka use those from 10000.
Ours is "ACL" in ASCII, far from both. docs/conformance.md specifies the field for other clients.

Source: KIP-140, KIP-290, KIP-482; Kafka 4.3 DescribeAclsRequest, CreateAclsRequest and others. The
order of the fields in version 0 follows Kafka 0.11 to 3.9: KIP-140's listings differ from the
released messages.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec

from authorizerd.acl.model import Acl, AclFilter, PatternType
from authorizerd.protocol.kafka.acl_types import (
    OFFSET_TAG,
    ErrorType,
    ListingType,
    OffsetType,
    read_usual_creations,
)
from authorizerd.protocol.kafka.body_reader import nullable_string
from authorizerd.protocol.kafka.chunked_output import Items
from authorizerd.protocol.kafka.codec import Shape
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ApiError
from authorizerd.protocol.kafka.responses import NOT_THROTTLED
from authorizerd.protocol.kafka.wire_types import Only, duration, int8, text

TEXTS_BYTES_MAX: Final = 1024 * 1024
"""The maximum size of all error texts in one answer.

Errors beyond it have a code but no text, and clients print the meaning of the code. This keeps a
request with many small items from causing an answer many times its size.
"""

_PatternType: TypeAlias = Annotated[int8, Only(since=1, absent=PatternType.LITERAL)]


class _AclFields(msgspec.Struct):
    resource_type: int8
    resource_name: text
    pattern_type: _PatternType
    principal: text
    host: text
    operation: int8
    permission_type: int8


class _FilterFields(msgspec.Struct):
    resource_type: int8
    resource_name: text | None
    pattern_type: _PatternType
    principal: text | None
    host: text | None
    operation: int8
    permission_type: int8


_Error: TypeAlias = Annotated[ApiError | None, ErrorType("")]
_Offset: TypeAlias = Annotated[int | None, OffsetType(), Only(tag=OFFSET_TAG)]


class ErrorTexts:
    """Limits the error texts in one answer."""

    __slots__ = ("_bytes_left", "_cut", "_last", "_size")

    def __init__(self) -> None:
        self._bytes_left = TEXTS_BYTES_MAX
        self._last = self._cut = ApiError(0)
        self._size = 0

    def limit(self, error: ApiError) -> ApiError:
        """Return the next error of the answer, without its text if the limit is exceeded."""
        if error is not self._last:
            self._last = self._cut = error
            if error.message is not None and len(error.message) > TEXT_CHARACTERS_MAX:
                self._cut = ApiError(error.code, error.message[:TEXT_CHARACTERS_MAX])
            self._size = len(nullable_string(self._cut.message, flexible=True))
        self._bytes_left -= self._size
        if self._bytes_left >= 0:
            return self._cut
        self._bytes_left = 0
        return ApiError(error.code)


class DescribeAclsRequest(msgspec.Struct, frozen=True):
    """Ask for the ACLs that a filter matches, and with ``ANY_OFFSET`` also for the log offset."""

    filter: Annotated[AclFilter, Shape(_FilterFields, AclFilter, is_part=True)]
    offset: Annotated[int | None, OffsetType(is_question=True), Only(tag=OFFSET_TAG)] = None


class DescribeAclsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The ACLs, and the log offset of the listing.

    ``acls`` is read as a list. It is written from any sequence, or from ``AclGroups``.
    """

    throttle_time: duration = NOT_THROTTLED
    error: _Error = None
    acls: Annotated[Any, ListingType()] = ()
    offset: _Offset = None


class CreateAclsRequest(msgspec.Struct, frozen=True):
    """ACLs to create if none has changed after the offset."""

    creations: Annotated[list[Annotated[Acl, Shape(_AclFields, Acl)]], read_usual_creations]
    offset: _Offset = None


class CreateAclsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The error of each creation, None for success, and the log offset of the state after it."""

    throttle_time: duration = NOT_THROTTLED
    results: Items[Annotated[ApiError | None, ErrorType("", has_end=True)]]
    offset: _Offset = None


class DeleteAclsRequest(msgspec.Struct, frozen=True):
    """Filters of the ACLs to delete if none has changed after the offset."""

    filters: list[Annotated[AclFilter, Shape(_FilterFields, AclFilter)]]
    offset: _Offset = None


class MatchingAcl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An ACL that a filter matched, and the error if it was not removed.

    Unlike in CreateAcls, a broker sends null as the text of a success.
    """

    error: Annotated[ApiError | None, ErrorType(None)] = None
    acl: Annotated[Acl, Shape(_AclFields, Acl, is_part=True)]


class FilterResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of one filter of a delete: its matches, or why it was not applied."""

    error: Annotated[ApiError | None, ErrorType(None)] = None
    matches: Items[MatchingAcl] = ()


class DeleteAclsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of each filter, and the log offset of the state after the request."""

    throttle_time: duration = NOT_THROTTLED
    results: Items[FilterResult]
    offset: _Offset = None
