"""Entities for version 5 of ApiVersions, which kio lacks.

The request may name the cluster and the node to which the client means to connect. The response has
the fields of version 4.

Source: KIP-1242; Kafka 4.4 ApiVersionsRequest, ApiVersionsResponse.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.api_versions import v4
from kio.static.primitive import i16, i32

# The annotations must be types, not text, when kio looks at them.


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest(v4.ApiVersionsRequest):
    __version__: ClassVar[i16] = i16(5)
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    node_id: i32 = field(metadata={"kafka_type": "int32"})
