"""Principals as a broker encodes them in Envelopes."""

import struct

from authorizerd.protocol.kafka.body_reader import string
from authorizerd.protocol.kafka.codec import NO_TAGS
from authorizerd.protocol.kafka.envelope import PRINCIPAL_VERSION


def encode_principal(principal: str) -> bytes:
    """Return the bytes of a principal, ``Type:name``, without a delegation token.

    Source: Kafka 4.3 DefaultKafkaPrincipalBuilder.
    """
    kind, _, name = principal.partition(":")
    strings = string(kind, flexible=True) + string(name, flexible=True)
    return struct.pack(">h", PRINCIPAL_VERSION) + strings + b"\0" + NO_TAGS
