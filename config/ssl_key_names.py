"""The names of ``ssl.*`` keys with their prefixes: of a listener, our own ports or a source.

Source: Kafka 4.3 DynamicBrokerConfig.
"""

from __future__ import annotations

from typing import Final

from authorizerd.config.tls_keys import RELOADABLE_SSL_KEYS, SECRET_SSL_KEYS, ssl_keys

HTTP_SSL_PREFIX: Final = "authorizerd.http."
_SSL_KEYS: Final = frozenset(key.name for key in ssl_keys())
_PORT_PREFIXES: Final = ("", HTTP_SSL_PREFIX, "authorizerd.source.")
_LISTENER: Final = "listener.name."


def kafka_ssl_name(name: str) -> str | None:
    """Return Kafka's name of an ``ssl.*`` key, without a prefix; None if it is another key.

    Clients send names of any length, so this takes linear time.
    """
    key = name[name.rfind("ssl.") :]
    prefix = name.removesuffix(key)
    listener = prefix.removeprefix(_LISTENER).removesuffix(".")
    is_of_listener = listener and prefix == f"{_LISTENER}{listener}." and "\n" not in listener
    return key if key in _SSL_KEYS and (prefix in _PORT_PREFIXES or is_of_listener) else None


def is_secret_ssl_key(name: str) -> bool:
    """Return True if the value of an ``ssl.*`` key, with any prefix, must not be shown."""
    return kafka_ssl_name(name) in SECRET_SSL_KEYS


def is_store_key(name: str) -> bool:
    """Return True if the key, with any prefix, is about a keystore or truststore."""
    return kafka_ssl_name(name) in RELOADABLE_SSL_KEYS


def is_http_ssl_key(name: str) -> bool:
    """Return True if the key is about TLS of our own ports."""
    return name.startswith(HTTP_SSL_PREFIX) and kafka_ssl_name(name) is not None
