"""Calls for tests of the Kafka client."""

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.kafka.acl_client import (
    decode_describe_acls_response,
    encode_describe_acls_request,
)
from authorizerd.protocol.kafka.api import ApiKey
from authorizerd.protocol.kafka.error_codes import ApiError


def describe_acls(filter: AclFilter | None = None) -> Call[list[Acl] | ApiError]:
    """Return the call that describes the ACLs, all of them without a filter."""
    wanted = filter or AclFilter()
    return Call(
        api_key=ApiKey.DESCRIBE_ACLS,
        encode=lambda version: encode_describe_acls_request(version, wanted),
        decode=decode_describe_acls_response,
    )
