"""Entities for version 1 of the Envelope, which kio lacks.

Its fields are those of version 0. The difference is that AUTHORIZER_NOT_READY may answer it.

Source: KIP-801, which bumps KIP-590's request; Kafka never shipped the bump.
"""

from typing import ClassVar

from kio.schema.envelope import v0
from kio.static.primitive import i16


class EnvelopeRequest(v0.EnvelopeRequest):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(1)


class EnvelopeResponse(v0.EnvelopeResponse):
    __slots__ = ()
    __version__: ClassVar[i16] = i16(1)
