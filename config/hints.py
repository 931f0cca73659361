"""Valid settings that probably mean something else.

**Invariant:** a hint changes nothing: the daemon accepts these settings, as Kafka does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from authorizerd.acl.surprises import find_principal_surprises
from authorizerd.config.configuration import Configuration
from authorizerd.config.endpoints import is_loopback
from authorizerd.config.errors import InvalidValueError
from authorizerd.config.own_keys import CALLERS_PREFIX
from authorizerd.config.tls import ClientAuth
from authorizerd.config.tls_keys import HTTP_SSL_PREFIX, is_secret_ssl_key
from authorizerd.config.values import parse_principals

_COMMA_AND_TYPE: Final = re.compile(r",\s*(?:user|group|service):", re.IGNORECASE)
"""A comma in a name is usual: ``User:CN=a,OU=b``. A comma before a type is not."""
_SECRETS: Final = ("sasl.jaas.config", ".password", ".secret")
_MAPPING_RULES: Final = "ssl.principal.mapping.rules"
_NO_PLACEHOLDER: Final = re.compile(r"\$\{(?:[^:}]*\}|[^}]*\Z)")
"""``${PW}`` has no colon, and ``${env:PW`` no end: Kafka takes both literally."""


def find_hints(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each setting that is probably a mistake.

    Args:
        texts: the text of each key that is set, such as ``Configuration.file_values``.
    """
    callers = sorted(key for key in texts if key.startswith(CALLERS_PREFIX) and texts[key].strip())
    is_mapped = any(key.endswith(_MAPPING_RULES) for key in texts)
    for key in ("super.users", *callers):
        yield from _find_list_hints(key, texts.get(key, ""), is_mapped=is_mapped)
    client_auth = texts.get(f"{HTTP_SSL_PREFIX}ssl.client.auth", ClientAuth.NONE.value)
    if callers and not texts.get("authorizerd.tokens.file") and client_auth == ClientAuth.NONE:
        yield (
            f"{', '.join(callers)}: without authorizerd.tokens.file or client certificates, the"
            " daemon does not know who calls, and trusts every caller to ask and to search"
        )
    yield from find_misread_utf8(texts)
    for key, text in texts.items():
        is_secret = key.endswith(_SECRETS) or is_secret_ssl_key(key)
        if is_secret and _NO_PLACEHOLDER.search(text):
            yield (
                f"{key}: it has a '${{' without a colon or without its '}}', which is taken"
                " literally: write a placeholder as ${provider:key} or ${provider:path:key}"
            )


def find_file_hints(configuration: Configuration) -> Iterator[str]:
    """Yield the hints for a configuration, and those for the file that it was read from."""
    yield from find_hints(configuration.file_values)
    yield from find_repeats(configuration)


def find_misread_utf8(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence, which does not show the text, for each text whose bytes are UTF-8."""
    for key, text in texts.items():
        if _is_misread_utf8(text):
            yield (
                f"{key}: this looks like UTF-8, but a properties file is ISO-8859-1, as in Kafka:"
                " write \\uXXXX for a character that is not ASCII, such as \\u00e9 for é"
            )


def find_repeats(configuration: Configuration) -> Iterator[str]:
    """Yield a sentence for each key that the file sets more than once."""
    for key, (earlier, line) in configuration.repeated_keys.items():
        yield f"{key}: set in lines {earlier} and {line}: as in Kafka, line {line} counts"


def find_exposed_tokens(configuration: Configuration) -> Iterator[str]:
    """Yield a sentence for each port that receives tokens of other machines in the clear."""
    for key, scheme, endpoint in (
        ("authorizerd.decision.http", "https", configuration.decision_http),
        ("authorizerd.decision.stream", "tls", configuration.decision_stream),
    ):
        if endpoint is not None and not endpoint.is_tls and not is_loopback(endpoint):
            yield (
                f"{key}: other machines can reach it, and tokens travel in the clear: use"
                f" {scheme}://, with {HTTP_SSL_PREFIX}ssl.keystore.location"
            )


def _is_misread_utf8(text: str) -> bool:
    """Return True if the bytes of a text that was read as ISO-8859-1 are valid UTF-8."""
    try:
        return not text.isascii() and bool(text.encode("iso-8859-1").decode())
    except UnicodeError:
        return False


def _find_list_hints(key: str, text: str, *, is_mapped: bool) -> Iterator[str]:
    try:
        principals = parse_principals(text)
    except InvalidValueError:
        return  # the configuration's faults report it
    for principal in sorted(principals):
        if _COMMA_AND_TYPE.search(principal):
            yield f"{key}: '{principal}' is one principal: separate entries by semicolons"
        surprises = find_principal_surprises(principal, is_mapped=is_mapped)
        yield from (f"{key}: {surprise}" for surprise in surprises)
