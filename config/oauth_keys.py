"""The table of Kafka's keys for OAUTHBEARER and Kerberos.

Source: Kafka 4.3 SaslConfigs, OAuthBearerLoginCallbackHandler, OAuthBearerValidatorCallbackHandler;
KIP-255, KIP-768, KIP-1139.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.key import Key, list_keys
from authorizerd.config.oauth_url import parse_document_url
from authorizerd.config.tls_keys import secret_text
from authorizerd.config.values import INT32_MAX, IntegerParser, boolean, invalid, words

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
VERIFIED: Final = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",  # before Kafka 4
)
UNSECURED: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_LOGIN_HANDLERS: Final = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
)
_RETRIEVERS: Final = tuple(
    f"{_PACKAGE}{name}"
    for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
)
_HOUR_MS: Final = 3_600_000
_DECIMAL: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{0,10})?")


def _one_of(*names: str) -> Callable[[str], str]:
    """Return a parser that accepts the names of these Java classes."""

    def parse(text: str) -> str:
        if text not in names:
            raise invalid(text, f"one of {', '.join(names)}", what="class")
        return text

    return parse


def _share(low: float, high: float) -> Callable[[str], float]:
    """Return a parser of decimal fractions in these bounds, both included."""

    def parse(text: str) -> float:
        value = float(text) if _DECIMAL.fullmatch(text) else math.nan
        if not low <= value <= high:
            raise invalid(text, f"a number from {low:g} to {high:g}")
        return value

    return parse


def _some_text(text: str) -> str:
    if not text:
        raise InvalidValueError("expected a name, found an empty value")
    return text


_MS: Final = IntegerParser(1, _HOUR_MS)


class _ListenerKeys:
    """How a listener checks tokens."""

    sasl_oauthbearer_jwks_endpoint_url = Key(parse_document_url)
    """Where a listener with OAUTHBEARER reads the issuer's public keys (a JWKS): a URL with https,
    with http on this machine, or with file. For one listener, set
    listener.name.NAME.sasl.oauthbearer.jwks.endpoint.url (NAME in lower case); this holds for all
    keys of OAUTHBEARER. Required, unless sasl.server.callback.handler.class permits unsecured
    tokens (`authorizerd docs authentication`)."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Key(IntegerParser(1000, INT32_MAX), "3600000")
    """Time in milliseconds between two readings of the issuer's keys. A token with an unknown key
    causes another reading, at most every 10 seconds."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Key(_MS, "100")
    """Time in milliseconds after which the daemon reads the issuer's keys again if a reading
    failed. It doubles with each failure."""
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Key(_MS, "10000")
    """Maximum time in milliseconds between two attempts to read the issuer's keys."""
    sasl_oauthbearer_expected_audience = Key(words)
    """Comma-separated list of audiences. A token is accepted only if its claim aud has one of
    them. If this key is not set, tokens with a claim aud are refused."""
    sasl_oauthbearer_expected_issuer = Key(str)
    """The issuer that a token's claim iss must name. If this key is not set, the claim is not
    checked: any token that the issuer's keys verify is accepted."""
    sasl_oauthbearer_scope_claim_name = Key(_some_text, "scope")
    """Name of the claim with the scopes. A token is refused if the claim is neither a text nor a
    list of texts; nothing else uses the scopes."""
    sasl_oauthbearer_sub_claim_name = Key(_some_text, "sub")
    """Name of the claim with the user's name: the principal is User: and this name."""
    sasl_oauthbearer_clock_skew_seconds = Key(IntegerParser(0, 3600), "30")
    """Maximum difference in seconds between the issuer's clock and this machine's."""
    sasl_server_callback_handler_class = Key(_one_of(*VERIFIED, UNSECURED), VERIFIED[0])
    """Kafka's class that checks tokens of OAUTHBEARER: OAuthBearerValidatorCallbackHandler or, for
    tests, OAuthBearerUnsecuredValidatorCallbackHandler, with its package. The latter accepts
    unsigned tokens, with which everyone logs in as anyone: the listener must be on a loopback
    address. Other classes are rejected."""


class _ClientKeys:
    """How the daemon gets the tokens and tickets with which it logs in to a cluster."""

    sasl_oauthbearer_token_endpoint_url = Key(parse_document_url)
    """Where the daemon gets tokens to log in to the cluster with OAUTHBEARER: the issuer's token
    endpoint (https, or http on this machine), or a file that another program writes (file)."""
    sasl_oauthbearer_client_credentials_client_id = Key(_some_text)
    """The client id with which the daemon requests tokens. It replaces clientId in the JAAS
    line."""
    sasl_oauthbearer_client_credentials_client_secret = Key(secret_text)
    """The client secret with which the daemon requests tokens. It replaces clientSecret in the JAAS
    line."""
    sasl_oauthbearer_scope = Key(_some_text)
    """The scope that the daemon requests. It replaces scope in the JAAS line."""
    sasl_oauthbearer_header_urlencode = Key(boolean, "false")
    """If true, client id and secret are URL-encoded in the request's header, as RFC 6749 says."""
    sasl_oauthbearer_jwt_retriever_class = Key(_one_of(*_RETRIEVERS), _RETRIEVERS[0])
    """Kafka's class that gets tokens: DefaultJwtRetriever, ClientCredentialsJwtRetriever or
    FileJwtRetriever, with its package. The URL decides which of them is meant. Other classes are
    rejected."""
    sasl_login_callback_handler_class = Key(_one_of(*_LOGIN_HANDLERS), _LOGIN_HANDLERS[0])
    """Kafka's class that handles the login with OAUTHBEARER: OAuthBearerLoginCallbackHandler, with
    its package. Other classes are rejected."""
    sasl_login_connect_timeout_ms = Key(_MS, "10000")
    """Maximum time in milliseconds to connect to the issuer of tokens; 1000 at most while the last
    token is valid. Kafka has no default."""
    sasl_login_read_timeout_ms = Key(_MS, "10000")
    """Maximum time in milliseconds until the issuer's whole answer has arrived; 1000 at most while
    the last token is valid. Kafka has no default."""
    sasl_login_retry_backoff_ms = Key(_MS, "100")
    """Time in milliseconds after which the daemon requests a token again if a request failed. It
    doubles with each failure."""
    sasl_login_retry_backoff_max_ms = Key(_MS, "10000")
    """Maximum time in milliseconds between two requests for a token."""
    sasl_login_refresh_window_factor = Key(_share(0.5, 1), "0.8")
    """Part of a token's lifetime after which the daemon uses a new token for new connections."""
    sasl_login_refresh_window_jitter = Key(_share(0, 0.25), "0.05")
    """Maximum random part of the lifetime that is added to sasl.login.refresh.window.factor."""
    sasl_login_refresh_min_period_seconds = Key(IntegerParser(0, 900), "60")
    """Minimum time in seconds between two tokens, while the token in use is valid."""
    sasl_login_refresh_buffer_seconds = Key(IntegerParser(0, 3600), "300")
    """Minimum time in seconds before a token's end at which it is replaced. Ignored, as is
    sasl.login.refresh.min.period.seconds, if both together exceed the token's lifetime."""
    sasl_kerberos_service_name = Key(_some_text)
    """Name of the service in the principal of the cluster's nodes, such as kafka for
    kafka/HOST@REALM. Required with GSSAPI, unless the JAAS line has serviceName."""
    sasl_kerberos_ticket_renew_window_factor = Key(_share(0, 1), "0.8")
    """Part of a Kerberos ticket's lifetime after which the daemon gets a new one for new
    connections."""
    sasl_kerberos_ticket_renew_jitter = Key(_share(0, 1), "0.05")
    """Maximum random part of the lifetime that is added to
    sasl.kerberos.ticket.renew.window.factor."""


TOKEN_KEYS: Final = (*list_keys(_ListenerKeys).values(),)
"""The keys with which a listener checks tokens."""

LOGIN_KEYS: Final = (*list_keys(_ClientKeys).values(),)
"""The keys with which a client gets tokens and tickets."""
