"""The security settings of a client: ``security.protocol``, ``sasl.*`` and ``ssl.*``.

**Invariant:** errors never contain a password or a key.

Source: Kafka 4.3 CommonClientConfigs, SaslConfigs, JaasContext. As in Kafka, PLAIN also accepts
the login module of SCRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizerd.cli.acls.errors import configuration_error, invalid_value
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE, parse_login_options
from authorizerd.config.values import SecurityProtocol
from authorizerd.kafka_client.log_in import Credentials, Mechanism

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_KAFKAS_DEFAULT: Final = "GSSAPI"
_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
_MODULES: Final = {
    Mechanism.PLAIN: (PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE),
    Mechanism.SCRAM_SHA_256: (SCRAM_LOGIN_MODULE,),
    Mechanism.SCRAM_SHA_512: (SCRAM_LOGIN_MODULE,),
}


def read_security_protocol(properties: Mapping[str, str]) -> SecurityProtocol:
    """Return the security protocol.

    Raises:
        CommandError: it is unknown.
    """
    text = properties.get(_PROTOCOL, SecurityProtocol.PLAINTEXT)
    try:
        return SecurityProtocol(text.strip().upper())
    except ValueError:
        # The order of these names is Kafka's.
        expected = "SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"
        reason = f"String must be one of (case insensitive): {expected}"
        raise invalid_value(_PROTOCOL, text, reason) from None


def read_credentials(
    properties: Mapping[str, str], protocol: SecurityProtocol
) -> Credentials | None:
    """Return the credentials to log in with, or None if the protocol has no log-in.

    Raises:
        CommandError: a property is missing, invalid or unsupported.
    """
    if protocol not in _SASL:
        return None
    mechanism = _read_mechanism(properties)
    if _JAAS not in properties:
        raise configuration_error(
            f"{_JAAS} is missing: set it to a line with the user's name and password"
        )
    try:
        options = parse_login_options(properties[_JAAS], _MODULES[mechanism])
    except InvalidValueError as error:
        raise configuration_error(f"{_JAAS}: {error}") from None
    if options.get("tokenauth", "").strip().lower() == "true":
        reason = "tokenauth=true (delegation tokens) is not supported: remove it"
        raise configuration_error(f"{_JAAS}: {reason}")
    if not (options.get("username") and "password" in options):
        raise configuration_error(f"{_JAAS}: username and password must be given")
    return Credentials(
        mechanism=mechanism, username=options["username"], password=options["password"]
    )


def _read_mechanism(properties: Mapping[str, str]) -> Mechanism:
    text = properties.get(_MECHANISM, _KAFKAS_DEFAULT)
    try:
        return Mechanism(text)
    except ValueError:
        reason = f"authorizerd acls supports only {', '.join(Mechanism)}"
        if _MECHANISM not in properties:
            reason += "; GSSAPI is Kafka's default"
        raise invalid_value(_MECHANISM, text, reason) from None
