"""How clients log in to a SASL listener: the mechanisms, PLAIN's users, the length of sessions.

**Invariant:** a listener that enables PLAIN has users, and one that enables OAUTHBEARER knows how
to check tokens. SCRAM needs nothing here: its credentials are in the metadata log.

Source: KIP-43, KIP-368; Kafka 4.3 SaslChannelBuilder, JaasContext, ListenerName.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from authorizerd.config.endpoints import Listener, is_loopback_host
from authorizerd.config.jaas import (
    SCRAM_LOGIN_MODULE,
    PlainUsers,
    parse_login_options,
    parse_plain_users,
)
from authorizerd.config.key_values import KeyValues
from authorizerd.config.keys import listener_prefix
from authorizerd.config.oauth import (
    OAUTH_LOGIN_MODULE,
    InvalidLoginError,
    TokenRules,
    new_token_rules,
)
from authorizerd.config.values import (
    OAUTHBEARER,
    PLAIN,
    SASL_PROTOCOLS,
    SecurityProtocol,
)

MECHANISMS: Final = "sasl.enabled.mechanisms"
SESSION_MS: Final = "connections.max.reauth.ms"
_NO_USERS: Final = PlainUsers({})
_NO_PLAIN_USERS: Final = (
    "required because {} enables PLAIN: add its users, or choose other mechanisms in"
    " sasl.enabled.mechanisms"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """How clients log in to one listener.

    ``mechanisms`` are in the order in which clients receive them; ``users`` are those of PLAIN,
    ``tokens`` the rules of OAUTHBEARER. ``session_ms`` has the time after which a client must log
    in again, by mechanism; 0 means never.
    """

    mechanisms: tuple[str, ...]
    users: PlainUsers
    session_ms: Mapping[str, int]
    tokens: TokenRules | None = None


def read_sasl_listeners(
    keys: KeyValues, protocols: Mapping[str, SecurityProtocol]
) -> Mapping[str, SaslSettings]:
    """Return how clients log in to every SASL listener, by its name.

    Raises:
        ConfigurationError: a key is invalid, PLAIN has no users, or OAUTHBEARER has no keys.
    """
    listeners: tuple[Listener, ...] = keys.values["listeners"]
    names = [listener.name for listener in listeners if protocols[listener.name] in SASL_PROTOCOLS]
    return keys.attempt_each(names, _read_settings)


def _read_settings(keys: KeyValues, listener_name: str) -> SaslSettings:
    prefix = listener_prefix(listener_name)
    enabled = keys.read_own(listener_name, MECHANISMS)
    mechanisms = keys.values[MECHANISMS] if enabled is None else enabled
    users, tokens = _NO_USERS, None
    for mechanism in mechanisms:
        login_key = f"{prefix}{mechanism.lower()}.sasl.jaas.config"
        if mechanism == PLAIN:
            users = _read_plain_users(keys, login_key, listener_name)
        elif mechanism == OAUTHBEARER:
            tokens = _read_token_rules(keys, login_key, listener_name)
        else:
            # Checked but not used: Kafka requires this key, for the broker's own connections.
            keys.read(login_key, _parse_scram_login)
    session_ms = {  # as in Kafka, a negative time means none
        mechanism: max(0, keys.read_nearest(listener_name, mechanism, SESSION_MS))
        for mechanism in mechanisms
    }
    return SaslSettings(
        mechanisms=mechanisms,
        users=users,
        session_ms=MappingProxyType(session_ms),
        tokens=tokens,
    )


def _read_plain_users(keys: KeyValues, users_key: str, listener_name: str) -> PlainUsers:
    users = keys.read(users_key, parse_plain_users)
    if users is None:
        raise keys.refusal(users_key, _NO_PLAIN_USERS.format(listener_name))
    return users


def _read_token_rules(keys: KeyValues, login_key: str, listener_name: str) -> TokenRules:
    options = keys.read(login_key, _parse_oauth_login) or {}
    listeners: tuple[Listener, ...] = keys.values["listeners"]
    (host,) = (each.host for each in listeners if each.name == listener_name)
    try:
        return new_token_rules(
            lambda key: keys.read_nearest(listener_name, OAUTHBEARER, key),
            options,
            is_loopback=is_loopback_host(host or ""),
        )
    except InvalidLoginError as error:
        is_jaas = login_key.endswith(error.key)
        name = login_key if is_jaas else keys.name_nearest(listener_name, OAUTHBEARER, error.key)
        raise keys.refusal(name, f"{listener_name}: {error}") from None


def _parse_oauth_login(text: str) -> dict[str, str]:
    return parse_login_options(text, (OAUTH_LOGIN_MODULE,))


def _parse_scram_login(text: str) -> dict[str, str]:
    return parse_login_options(text, (SCRAM_LOGIN_MODULE,))
