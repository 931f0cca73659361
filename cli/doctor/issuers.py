"""Check the listeners with OAUTHBEARER: which tokens they accept, and the issuer's keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import trio

from authorizerd.cli.doctor.finding import Finding, error, ok, warning
from authorizerd.config.configuration import Configuration
from authorizerd.config.oauth import JWKS_URL, TokenRules
from authorizerd.daemon.kafka.login.issuer_keys import read_keys
from authorizerd.kafka_client.documents import DocumentError

_CHECK: Final = "tokens"
_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"


def examine_issuers(configuration: Configuration) -> Iterator[Finding]:
    """Yield findings for each listener with OAUTHBEARER. This reads the issuers' keys."""
    for name, sasl in configuration.sasl_listeners.items():
        if sasl.tokens is None:
            continue
        if sasl.tokens.keys_url is None:
            text = f"{name}: accepts unsecured tokens: every user of this machine can be any user"
            yield warning(_CHECK, text, f"for other purposes than tests, set {JWKS_URL}")
            continue
        yield from _examine_rules(name, sasl.tokens)


def _examine_rules(name: str, rules: TokenRules) -> Iterator[Finding]:
    assert rules.keys_url is not None
    try:
        keys = trio.run(read_keys, rules)
    except DocumentError as fault:
        advice = f"check {JWKS_URL}; the CA of the issuer is in the listener's JAAS line"
        yield error(_CHECK, f"{name}: the issuer's keys: {fault}", advice)
    else:
        if keys:
            yield ok(_CHECK, f"{name}: usable keys in {rules.keys_url.text}: {len(keys)}")
        else:
            text = f"{name}: no usable key in {rules.keys_url.text}: every login fails"
            yield error(_CHECK, text, "expected a public key for signatures: RSA, EC or OKP")
    if not rules.audiences:
        text = f"{name}: tokens without an audience are accepted, whatever they were issued for"
        yield warning(_CHECK, text, f"set {_AUDIENCE}")
    if rules.issuer is None:
        text = f"{name}: tokens that name any issuer are accepted, if its keys verify them"
        yield warning(_CHECK, text, f"set {_ISSUER}")
