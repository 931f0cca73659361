"""The tokens with which a client logs in by OAUTHBEARER.

**Invariant:** a token is used only before its end. No error, log line or ``repr`` contains a token
or a client's secret. The issuer gets one request at a time, and fewer of them while it fails.

Source: RFC 6749 (client credentials), RFC 7628; KIP-255, KIP-768, KIP-1139; Kafka 4.3
ClientCredentialsJwtRetriever, ClientSecretRequestFormatter, Retry, OAuthBearerSaslClient.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

import trio

from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.config.oauth import TokenLogIn
from authorizerd.kafka_client.documents import (
    DocumentError,
    HttpAnswer,
    Limits,
    exchange,
    read_file,
)
from authorizerd.kafka_client.errors import Cause, RequestFailedError
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode

Exchange = Callable[..., Awaitable[HttpAnswer]]
"""``documents.exchange``, or what tests put in its place."""

_OK: Final = 200
# Another attempt with the same request cannot succeed. Source: Kafka 4.3 HttpJwtRetriever.
_FINAL: Final = frozenset((400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415))
_TOKEN: Final = re.compile(r"[-_.~+/=a-zA-Z0-9]+")
_REASON_CHARACTERS_MAX: Final = 200
_RENEWAL_MS_MAX: Final = 1000
"""How long a login with a valid token waits for a connection to the issuer, and for its answer."""
_SECONDS_MAX: Final = 1e12
"""A token with a longer lifetime never ends; and an integer may be too large for a float."""


class _Token(NamedTuple):
    """A token, and the times at which it is replaced, and at which it ends."""

    text: str
    replaced_at: float
    ends_at: float


class _RefusedError(Exception):
    """The issuer refuses to give a token, or what it gives is not one."""


class TokenSource:
    """Gets tokens, and keeps the newest one until it is time for another.

    Args:
        ask: sends the requests.
        chance: returns a random number from 0 to 1.
        clock: a monotonic clock. It is not trio's, which starts again in each ``trio.run``.
    """

    def __init__(
        self,
        settings: TokenLogIn,
        ask: Exchange = exchange,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings: Final = settings
        self._ask = ask
        self._chance = chance
        self._clock = clock
        self._token: _Token | None = None
        self._lock = trio.Lock()
        self._pause_s = 0.0
        self._paused_until = -math.inf

    @property
    def username(self) -> None:
        """None: the servers find the name in the token."""
        return

    async def get(self) -> str:
        """Return a valid token: the newest one, or a new one.

        While the issuer fails, an earlier token is returned as long as it is valid.

        Raises:
            RequestFailedError: there is no valid token. The text names the issuer and the reason.
        """
        async with self._lock:
            token = self._token
            if token is not None and self._clock() < token.replaced_at:
                return token.text
            try:
                token = self._token = await self._renew()
            except (DocumentError, _RefusedError) as error:
                if token is None or not self._has_valid:
                    failure = ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
                    raise RequestFailedError(failure, Cause.ISSUER) from None
            return token.text

    def discard(self, token: str) -> None:
        """Do not use a token again: a server has refused it."""
        if self._token is not None and self._token.text == token:
            self._token = None

    @property
    def _has_valid(self) -> bool:
        """True if the newest token may be used now: it may end, or be refused, during a request."""
        return self._token is not None and self._clock() < self._token.ends_at

    async def _renew(self) -> _Token:
        """Return a new token; try again after each failure, for as long as the maximum pause."""
        settings = self.settings
        deadline = self._clock() + settings.retry_max_ms / 1000
        while True:
            has_valid = self._has_valid
            if has_valid and self._clock() < self._paused_until:
                raise DocumentError(f"{settings.url.text}: it failed a moment ago")
            await trio.sleep(max(0.0, self._paused_until - self._clock()))
            try:
                text, expires_in = await self._fetch(_RENEWAL_MS_MAX if has_valid else None)
                token = self._check(text, expires_in)
            except (DocumentError, _RefusedError) as error:
                self._pause_s = min(
                    max(settings.retry_ms / 1000, 2 * self._pause_s), settings.retry_max_ms / 1000
                )
                self._paused_until = self._clock() + self._pause_s
                is_last = self._has_valid or self._paused_until >= deadline
                if isinstance(error, _RefusedError) or is_last:
                    raise
            else:
                self._pause_s, self._paused_until = 0.0, -math.inf
                return token

    async def _fetch(self, limit_ms: int | None) -> tuple[str, object]:
        """Return the text of a token, and the issuer's ``expires_in`` if it gives one."""
        settings = self.settings
        limits = Limits(settings.connect_timeout_ms, settings.read_timeout_ms)
        if limit_ms is not None:
            limits = Limits(*(min(each, limit_ms) for each in limits))
        if settings.url.path is not None:
            return (await read_file(settings.url)).decode(errors="replace").strip(), None
        answer = await self._ask(
            settings.url,
            settings.tls,
            headers=_write_headers(settings),
            body=_write_form(settings),
            limits=limits,
        )
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            document = None
        fields: dict[str, Any] = document if isinstance(document, dict) else {}
        if answer.status != _OK:
            place = f"{settings.url.text}: status {answer.status}"
            reasons = (fields.get("error"), fields.get("error_description"))
            text = ": ".join([place, *map(_show, filter(None, reasons))])
            raise (_RefusedError if answer.status in _FINAL else DocumentError)(text)
        token = fields.get("access_token")
        if not isinstance(token, str):
            raise _RefusedError(f"{settings.url.text}: expected an access_token in the answer")
        return token.strip(), fields.get("expires_in")

    def _check(self, text: str, expires_in: object) -> _Token:
        place = self.settings.url.text
        if not _TOKEN.fullmatch(text):
            raise _RefusedError(f"{place}: expected a token: letters, digits and -._~+/=")
        lifetime_s = _read_lifetime(text, expires_in)
        if lifetime_s is None:
            raise _RefusedError(f"{place}: expected a token (JWT) with the claim exp")
        if lifetime_s <= 0:
            raise _RefusedError(f"{place}: the token has expired: check this machine's clock")
        now = self._clock()
        replaced_in_s = self.settings.refresh.find_time(lifetime_s, self._chance())
        if self.settings.url.path is not None:
            # Another program replaces the file, at a time that is not known.
            replaced_in_s = 0
        return _Token(text, now + replaced_in_s, now + lifetime_s)


def _write_headers(settings: TokenLogIn) -> dict[str, str]:
    pair = (settings.client_id, settings.client_secret)
    if settings.encodes_header:
        pair = (quote_plus(pair[0]), quote_plus(pair[1]))
    credentials = b64encode(":".join(pair).encode()).decode()
    return {
        "Accept": "application/json",
        "Authorization": f"Basic {credentials}",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _write_form(settings: TokenLogIn) -> bytes:
    form = {"grant_type": "client_credentials"}
    if settings.scope:
        form["scope"] = settings.scope
    return urlencode(form).encode()


def _read_lifetime(token: str, expires_in: object) -> float | None:
    """Return for how many seconds a token is valid; None if neither it nor the issuer says so.

    The signature is not checked: the issuer itself sent the token, and the server checks it.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        lifetime_s = float(claims["exp"]) - time.time()
    except (IndexError, KeyError, TypeError, ValueError, RecursionError, OverflowError):
        if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
            return None
        lifetime_s = expires_in if abs(expires_in) < _SECONDS_MAX else math.inf
    return lifetime_s if math.isfinite(lifetime_s) else None


def write_first_message(token: str, settings: TokenLogIn) -> bytes:
    """Return the client's first message: the token and the extensions (KIP-342)."""
    pairs = {"auth": f"Bearer {token}", **settings.extensions}
    return b"n,,\x01%b\x01" % "".join(f"{key}={pairs[key]}\x01" for key in pairs).encode()


def _show(text: object) -> str:
    return escape_unprintable(str(text)[:_REASON_CHARACTERS_MAX])
