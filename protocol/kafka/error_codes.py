"""The Kafka errors that the daemon sends or understands: their names, numbers and texts.

The texts are Kafka's. Clients print them if an answer has no text of its own.

Source: Kafka 4.4 Errors. AUTHORIZER_NOT_READY is from KIP-801; Kafka never assigned it a number.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

import msgspec

TEXT_CHARACTERS_MAX: Final = 4096
"""The maximum length of an error text.

Otherwise a text that quotes a request could exceed the maximum size of a Kafka string.
"""


class ErrorCode(IntEnum):
    """A Kafka error. ``text`` is its general meaning."""

    text: str

    def __new__(cls, code: int, text: str) -> Self:
        member = int.__new__(cls, code)
        member._value_ = code  # otherwise the value would be the pair of code and text
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = (
        -1,
        "The server experienced an unexpected error when processing the request.",
    )
    NONE = 0, "NONE"
    OFFSET_OUT_OF_RANGE = (
        1,
        "The requested offset is not within the range of offsets maintained by the server.",
    )
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition."
    LEADER_NOT_AVAILABLE = (
        5,
        "There is no leader for this topic-partition as we are in the middle of a leadership "
        "election.",
    )
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "For requests intended only for the leader, this error indicates that the broker is not "
        "the current leader. For requests intended for any replica, this error indicates that the "
        "broker is not a replica of the topic partition.",
    )
    REQUEST_TIMED_OUT = 7, "The request timed out."
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    NETWORK_EXCEPTION = 13, "The server disconnected before a response was received."
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        "The coordinator is loading and hence can't process requests.",
    )
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available."
    NOT_COORDINATOR = 16, "This is not the correct coordinator."
    INVALID_TOPIC_EXCEPTION = (
        17,
        "The request attempted to perform an operation on an invalid topic.",
    )
    TOPIC_AUTHORIZATION_FAILED = 29, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, "Cluster authorization failed."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not support the requested SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "Request is not valid given the current SASL state."
    UNSUPPORTED_VERSION = 35, "The version of API is not supported."
    INVALID_CONFIG = 40, "Configuration is invalid."
    NOT_CONTROLLER = 41, "This is not the correct controller for this cluster."
    INVALID_REQUEST = (
        42,
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details.",
    )
    POLICY_VIOLATION = 44, "Request parameters do not satisfy the configured policy."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, "Security features are disabled."
    KAFKA_STORAGE_ERROR = 56, "Disk error when trying to access log file on the disk."
    SASL_AUTHENTICATION_FAILED = 58, "SASL Authentication failed."
    GROUP_ID_NOT_FOUND = 69, "The group id does not exist."
    FENCED_LEADER_EPOCH = (
        74,
        "The leader epoch in the request is older than the epoch on the broker.",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        "The leader epoch in the request is newer than the epoch on the broker.",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "The throttling quota has been exceeded."
    RESOURCE_NOT_FOUND = 91, "A request illegally referred to a resource that does not exist."
    DUPLICATE_RESOURCE = 92, "A request illegally referred to the same resource twice."
    UNACCEPTABLE_CREDENTIAL = (
        93,
        "Requested credential would not meet criteria for acceptability.",
    )
    INVALID_UPDATE_VERSION = 95, "The given update version was invalid."
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        "Request principal deserialization failed during forwarding. This indicates an internal "
        "error on the broker cluster security setup.",
    )
    SNAPSHOT_NOT_FOUND = 98, "Requested snapshot was not found."
    POSITION_OUT_OF_RANGE = (
        99,
        "Requested position is not greater than or equal to zero, and less than the size of the "
        "snapshot.",
    )
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID."
    INCONSISTENT_TOPIC_ID = (
        103,
        "The log's topic ID did not match the topic ID in the request.",
    )
    INCONSISTENT_CLUSTER_ID = (
        104,
        "The clusterId in the request does not match that found on the server.",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, "The request was sent to an endpoint of the wrong type."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This endpoint type is not supported yet."
    REBOOTSTRAP_REQUIRED = (
        129,
        "Client metadata is stale. The client should rebootstrap to obtain new metadata.",
    )
    GROUP_DELETION_FAILED = (
        134,
        "DeleteGroups could not complete; see the error message on the per-group result for "
        "details.",
    )
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "The broker could not process the topology description update; see the error message for "
        "details.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "The given controller ID was not registered."
    AUTHORIZER_NOT_READY = 801, "The ACLs are not loaded yet."


class ApiError(msgspec.Struct, frozen=True, gc=False):
    """The error in an answer: a Kafka error code, perhaps unknown here, and a specific text."""

    code: int
    message: str | None = None

    @property
    def name(self) -> str:
        """The error's name, or its number if it is not known here."""
        known = _KNOWN.get(self.code)
        return f"error {self.code}" if known is None else known.name

    def __str__(self) -> str:
        """Return the error's name and text for display."""
        known = _KNOWN.get(self.code)
        text = "no text" if known is None else known.text
        return f"{self.name}: {self.message or text}"


_KNOWN: Final = {int(error): error for error in ErrorCode}
