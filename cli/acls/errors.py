"""The errors that end ``authorizerd acls``, printed as kafka-acls prints them.

**Invariant:** invalid flags are reported on standard error, everything else on standard output as
``Error while executing ACL command``; the exit code is 1 either way. Only those lines of a Java
stack trace are printed that name an exception.
"""

from __future__ import annotations

from typing import Final

from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

CONFIG_EXCEPTION: Final = "org.apache.kafka.common.config.ConfigException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
_ERRORS: Final = "org.apache.kafka.common.errors."
_EXECUTION_EXCEPTION: Final = "java.util.concurrent.ExecutionException"
_KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"

# Source: Kafka 4.4 Errors. Clients treat an unknown code as the first of these.
_CLASSES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "UnsupportedSaslMechanismException",
    ErrorCode.ILLEGAL_SASL_STATE: "IllegalSaslStateException",
    ErrorCode.UNSUPPORTED_VERSION: "UnsupportedVersionException",
    ErrorCode.NOT_CONTROLLER: "NotControllerException",
    ErrorCode.INVALID_REQUEST: "InvalidRequestException",
    ErrorCode.POLICY_VIOLATION: "PolicyViolationException",
    ErrorCode.SECURITY_DISABLED: "SecurityDisabledException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "MismatchedEndpointTypeException",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "UnsupportedEndpointTypeException",
    ErrorCode.REBOOTSTRAP_REQUIRED: "RebootstrapRequiredException",
    ErrorCode.GROUP_DELETION_FAILED: "GroupDeletionFailedException",
    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: (
        "StreamsTopologyDescriptionUpdateFailedException"
    ),
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "ControllerIdNotRegisteredException",
}


class UsageError(Exception):
    """Invalid flags; the text is the line that kafka-acls prints above its help."""


class KafkaAclsError(Exception):
    """A failed command: Java's exception and its causes, each a class name and a message.

    ``advice`` tells the user what to do, on standard error; kafka-acls has no such text.
    """

    def __init__(self, *chain: tuple[str, str], advice: str = "") -> None:
        super().__init__(*chain)
        self._chain = chain
        self.advice = advice

    @property
    def reason(self) -> str:
        """The message of the last cause, without Java class names."""
        return self._chain[-1][1]

    def __str__(self) -> str:
        """Return the lines that kafka-acls prints."""
        causes = "\nCaused by: ".join(f"{name}: {message}" for name, message in self._chain)
        return f"Error while executing ACL command: {self._chain[0][1]}\n{causes}\n\n"


def configuration_error(reason: str, advice: str = "") -> KafkaAclsError:
    """Return the error that kafka-acls prints if it cannot create its admin client."""
    failed = (_KAFKA_EXCEPTION, "Failed to create new KafkaAdminClient")
    return KafkaAclsError(failed, (CONFIG_EXCEPTION, reason), advice=advice)


def tls_configuration_error(reason: str) -> KafkaAclsError:
    """Return the error that kafka-acls prints if it cannot use a keystore or truststore."""
    return KafkaAclsError(
        (_KAFKA_EXCEPTION, "Failed to create new KafkaAdminClient"),
        (_KAFKA_EXCEPTION, "Failed to create new NetworkClient"),
        (f"{_ERRORS}InvalidConfigurationException", reason),
    )


def handshake_error(reason: str, advice: str, *, is_late: bool) -> KafkaAclsError:
    """Return the error of a TLS handshake. The last line has the reason; the others are Kafka's."""
    cause = f"{_ERRORS}SslAuthenticationException"
    message = "Failed to process post-handshake messages" if is_late else "SSL handshake failed"
    return KafkaAclsError(
        (_EXECUTION_EXCEPTION, f"{cause}: {message}"),
        (cause, message),
        ("javax.net.ssl.SSLHandshakeException", reason),
        advice=advice,
    )


def invalid_value(key: str, value: str, reason: str) -> KafkaAclsError:
    """Return the error that kafka-acls prints for the invalid value of a property."""
    return KafkaAclsError(
        (CONFIG_EXCEPTION, f"Invalid value {value} for configuration {key}: {reason}")
    )


def request_error(error: ApiError, advice: str = "") -> KafkaAclsError:
    known = next((code for code in _CLASSES if code == error.code), ErrorCode.UNKNOWN_SERVER_ERROR)
    cause = f"{_ERRORS}{_CLASSES[known]}"
    message = known.text if error.message is None else error.message
    chain = ((_EXECUTION_EXCEPTION, f"{cause}: {message}"), (cause, message))
    return KafkaAclsError(*chain, advice=advice)
