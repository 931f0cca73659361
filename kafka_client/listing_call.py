"""The calls that list all ACLs of a broker. They need DESCRIBE on the cluster."""

from __future__ import annotations

from typing import Final

from authorizerd.acl.model import AclFilter
from authorizerd.kafka_client.connection import Call
from authorizerd.protocol.kafka.acl_client import encode_describe_acls_request
from authorizerd.protocol.kafka.api import ApiKey


def _encode(version: int) -> bytes:
    return encode_describe_acls_request(version, AclFilter())


def _encode_placed(version: int) -> bytes:
    return encode_describe_acls_request(version, AclFilter(), asks_offset=True)


def _keep_body(version: int, body: bytes | bytearray) -> tuple[int, bytes | bytearray]:
    return version, body


LISTING_CALL: Final = Call(api_key=ApiKey.DESCRIBE_ACLS, encode=_encode, decode=_keep_body)
"""The caller decodes the body with ``acl_listing``, in steps."""

PLACED_LISTING_CALL: Final = Call(
    api_key=ApiKey.DESCRIBE_ACLS, encode=_encode_placed, decode=_keep_body
)
"""The same, with our tagged field: an authorizerd answers the log offset of the listing, too."""
