"""How listeners check tokens of OAUTHBEARER, and how a client gets the tokens that it logs in with.

**Invariant:** no error and no ``repr`` contains a client's secret. Unsecured tokens are accepted
only on a loopback address, and only if a key says so.

Source: KIP-255, KIP-342, KIP-768, KIP-1139; Kafka 4.3 BrokerJwtValidator, DefaultJwtRetriever,
ClientCredentialsJwtRetriever, OAuthBearerLoginCallbackHandler, ExpiringCredentialRefreshConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from authorizerd.config.errors import InvalidValueError
from authorizerd.config.oauth_keys import UNSECURED
from authorizerd.config.oauth_url import DocumentUrl
from authorizerd.config.tls import InvalidTlsError, TlsSettings, new_tls_settings
from authorizerd.config.tls_keys import CLIENT_SSL_KEYS
from authorizerd.config.values import OAUTHBEARER

OAUTH_LOGIN_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER: Final = "sasl.server.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a key's name
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - a key's name
SCOPE: Final = "sasl.oauthbearer.scope"

_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
EXTENSIONS_BYTES_MAX: Final = 1024

ReadKey = Callable[[str], Any]
"""Return the value of a key by Kafka's name, or None if it is not set and has no default."""


class InvalidLoginError(InvalidValueError):
    """Settings of a login that contradict each other. ``key`` is Kafka's name of the key."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """How a listener checks tokens; times are in milliseconds, ``skew_s`` in seconds.

    ``keys_url`` is None if unsecured tokens are accepted. ``audiences`` is empty, and ``issuer``
    None, if they are not configured.
    """

    keys_url: DocumentUrl | None
    keys_tls: TlsSettings | None = None
    refresh_ms: int = 3_600_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    scope_claim: str = "scope"
    user_claim: str = "sub"
    skew_s: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshRule:
    """When a credential with an end is replaced by a new one."""

    factor: float = 0.8
    jitter: float = 0.05
    min_period_s: int = 0
    buffer_s: int = 0

    def find_time(self, lifetime_s: float, chance: float) -> float:
        """Return how many seconds after its creation a credential is replaced.

        Args:
            chance: a random number from 0 to 1.

        Source: Kafka 4.3 ExpiringCredentialRefreshingLogin.refreshMs.
        """
        at_s = lifetime_s * (self.factor + self.jitter * chance)
        if self.min_period_s + self.buffer_s > lifetime_s:
            return min(at_s, lifetime_s)
        return max(self.min_period_s, min(at_s, lifetime_s - self.buffer_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogIn:
    """How a client gets the tokens that it logs in with: from an issuer, or from a file."""

    url: DocumentUrl
    tls: TlsSettings | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    encodes_header: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict)
    connect_timeout_ms: int = 10_000
    read_timeout_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    refresh: RefreshRule = field(default_factory=RefreshRule)

    mechanism = OAUTHBEARER
    username = None
    """The issuer decides, so the name is not known."""


def new_token_rules(read: ReadKey, options: Mapping[str, str], *, is_loopback: bool) -> TokenRules:
    """Return how a listener checks tokens.

    Args:
        options: those of the listener's JAAS line.
        is_loopback: True if only this machine can reach the listener.

    Raises:
        InvalidLoginError: a key is missing, or keys contradict each other.
    """
    keys_url = read(JWKS_URL)
    if read(HANDLER) == UNSECURED:
        if keys_url is not None:
            reason = f"{HANDLER} accepts unsecured tokens, which need no keys: remove one of both"
            raise InvalidLoginError(JWKS_URL, reason)
        if not is_loopback:
            reason = (
                "unsecured tokens let everyone log in as anyone: listen on a loopback address, or"
                f" remove this key and set {JWKS_URL}"
            )
            raise InvalidLoginError(HANDLER, reason)
    elif keys_url is None:
        reason = "required for OAUTHBEARER: set it to the URL of the issuer's keys (jwks_uri)"
        raise InvalidLoginError(JWKS_URL, reason)
    return TokenRules(
        keys_url=keys_url,
        keys_tls=_read_tls(keys_url, options),
        refresh_ms=read("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        retry_ms=read("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        retry_max_ms=read("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        audiences=read("sasl.oauthbearer.expected.audience") or (),
        issuer=read("sasl.oauthbearer.expected.issuer") or None,
        scope_claim=read("sasl.oauthbearer.scope.claim.name"),
        user_claim=read("sasl.oauthbearer.sub.claim.name"),
        skew_s=read("sasl.oauthbearer.clock.skew.seconds"),
    )


def new_token_log_in(read: ReadKey, options: Mapping[str, str]) -> TokenLogIn:
    """Return how a client gets tokens. Keys take precedence over the JAAS line, as in Kafka.

    Args:
        options: those of the client's JAAS line.

    Raises:
        InvalidLoginError: a key is missing, or the JAAS line is invalid.
    """
    url: DocumentUrl | None = read(TOKEN_URL)
    if url is None:
        reason = (
            "required for OAUTHBEARER: set it to the issuer's token endpoint, or to a file with a"
            " token (file:///PATH)"
        )
        raise InvalidLoginError(TOKEN_URL, reason)
    client_id = read(CLIENT_ID) or options.get("clientId", "")
    client_secret = read(CLIENT_SECRET) or options.get("clientSecret", "")
    if url.path is None:
        for key, option, value in (
            (CLIENT_ID, "clientId", client_id),
            (CLIENT_SECRET, "clientSecret", client_secret),
        ):
            if not value:
                reason = f"required to request tokens: set it, or {option} in sasl.jaas.config"
                raise InvalidLoginError(key, reason)
    return TokenLogIn(
        url=url,
        tls=_read_tls(url, options),
        client_id=client_id,
        client_secret=client_secret,
        scope=read(SCOPE) or options.get("scope", ""),
        encodes_header=read("sasl.oauthbearer.header.urlencode"),
        extensions=_read_extensions(options),
        connect_timeout_ms=read("sasl.login.connect.timeout.ms"),
        read_timeout_ms=read("sasl.login.read.timeout.ms"),
        retry_ms=read("sasl.login.retry.backoff.ms"),
        retry_max_ms=read("sasl.login.retry.backoff.max.ms"),
        refresh=RefreshRule(
            factor=read("sasl.login.refresh.window.factor"),
            jitter=read("sasl.login.refresh.window.jitter"),
            min_period_s=read("sasl.login.refresh.min.period.seconds"),
            buffer_s=read("sasl.login.refresh.buffer.seconds"),
        ),
    )


def _read_extensions(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the extensions of a JAAS line: each option ``extension_NAME`` (KIP-342)."""
    extensions = {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }
    for name, value in extensions.items():
        is_valid = _EXTENSION_NAME.fullmatch(name) and _EXTENSION_VALUE.fullmatch(value)
        if name == "auth" or not is_valid:
            reason = (
                "expected extension_NAME=VALUE, with letters in the name (but not auth), and"
                " printable ASCII characters in the value"
            )
            raise InvalidLoginError("sasl.jaas.config", reason)
    if sum(len(name) + len(value) + 2 for name, value in extensions.items()) > EXTENSIONS_BYTES_MAX:
        reason = f"expected at most {EXTENSIONS_BYTES_MAX} characters in all extensions"
        raise InvalidLoginError("sasl.jaas.config", reason)
    return MappingProxyType(extensions)


def _read_tls(url: DocumentUrl | None, options: Mapping[str, str]) -> TlsSettings | None:
    """Return the TLS settings for an issuer: ``ssl.*`` options of the JAAS line, as in Kafka."""
    if url is None or not url.is_tls:
        return None
    values = {}
    for each in CLIENT_SSL_KEYS:
        text = options.get(each.name, each.default)
        if text is not None:
            try:
                values[each.name] = each.parse(text)
            except InvalidValueError as error:
                # The text may be a password, so only the option is named.
                reason = str(error) if each.default is not None else "the value is invalid"
                raise InvalidLoginError("sasl.jaas.config", f"{each.name}: {reason}") from None
    try:
        return new_tls_settings(values, {each.name: each.name for each in CLIENT_SSL_KEYS})
    except InvalidTlsError as error:
        raise InvalidLoginError("sasl.jaas.config", f"{error.key}: {error}") from None
