"""Entities for version 0 of the ACL requests and responses, which kio lacks.

Version 0 has no pattern type: every pattern is LITERAL.

Source: KIP-140. The order of the fields and the throttle time follow Kafka 0.11 to 3.9, since
KIP-140's listings differ from the released messages.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i8, i16, i32Timedelta

# The annotations must be types, not text, when kio looks at them.


class _Version0:
    __slots__ = ()
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False


class _Request(_Version0):
    __slots__ = ()
    __type__: ClassVar = EntityType.request
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class _Response(_Version0):
    __slots__ = ()
    __type__: ClassVar = EntityType.response
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


class _Nested(_Version0):
    __slots__ = ()
    __type__: ClassVar = EntityType.nested


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsRequest(_Request):
    __api_key__: ClassVar[i16] = i16(29)
    resource_type_filter: i8 = field(metadata={"kafka_type": "int8"})
    resource_name_filter: str | None = field(metadata={"kafka_type": "string"})
    principal_filter: str | None = field(metadata={"kafka_type": "string"})
    host_filter: str | None = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDescription(_Nested):
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResource(_Nested):
    resource_type: i8 = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    acls: tuple[AclDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeAclsResponse(_Response):
    __api_key__: ClassVar[i16] = i16(29)
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    resources: tuple[DescribeAclsResource, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation(_Nested):
    resource_type: i8 = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest(_Request):
    __api_key__: ClassVar[i16] = i16(30)
    creations: tuple[AclCreation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult(_Nested):
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse(_Response):
    __api_key__: ClassVar[i16] = i16(30)
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    results: tuple[AclCreationResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilter(_Nested):
    resource_type_filter: i8 = field(metadata={"kafka_type": "int8"})
    resource_name_filter: str | None = field(metadata={"kafka_type": "string"})
    principal_filter: str | None = field(metadata={"kafka_type": "string"})
    host_filter: str | None = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest(_Request):
    __api_key__: ClassVar[i16] = i16(31)
    filters: tuple[DeleteAclsFilter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsMatchingAcl(_Nested):
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    resource_type: i8 = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: i8 = field(metadata={"kafka_type": "int8"})
    permission_type: i8 = field(metadata={"kafka_type": "int8"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilterResult(_Nested):
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    error_message: str | None = field(metadata={"kafka_type": "string"})
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse(_Response):
    __api_key__: ClassVar[i16] = i16(31)
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    filter_results: tuple[DeleteAclsFilterResult, ...]
