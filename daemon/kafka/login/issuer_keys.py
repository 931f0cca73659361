"""The public keys with which an issuer signs its tokens.

**Invariant:** only public keys for signatures are kept, and each key verifies only the algorithms
of its kind: never ``none``, and never an HMAC with a public key as its secret. However many tokens
name unknown keys, the issuer gets at most one extra request every 10 seconds.

If the issuer cannot be reached, the last known keys stay in use. If it lists no usable key, none
stays: it has withdrawn them.

Source: RFC 7517, RFC 7518, RFC 8725; Kafka 4.3 RefreshingHttpsJwks.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from authorizerd.config.oauth import TokenRules
from authorizerd.daemon.process.threads import run_in_thread
from authorizerd.kafka_client.documents import DocumentError, exchange, read_file

if TYPE_CHECKING:
    from jwt import PyJWK

KEYS_MAX: Final = 1000
EXTRA_READING_SECONDS_MIN: Final = 10.0
"""Minimum time between two extra readings, which unknown keys cause."""
WAIT_SECONDS_MAX: Final = 10.0
"""Maximum time that a login waits for an extra reading."""

_RSA_BITS_MIN: Final = 2048
_OK: Final = 200
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}

_logger = logging.getLogger("authorizerd")


class IssuerKey(NamedTuple):
    """A public key, and the algorithms of the signatures that it may verify."""

    key: Any
    algorithms: Sequence[str]


Keys = Mapping[str | None, IssuerKey]
"""Keys by their ids; None is the id of a key without one."""


class IssuerKeys:
    """Keeps an issuer's keys up to date while ``run`` runs.

    Args:
        name: the listener's, for the log.
        read: returns the keys by their ids, or raises DocumentError.
    """

    def __init__(
        self,
        rules: TokenRules,
        name: str,
        read: Callable[[TokenRules], Awaitable[Keys]] | None = None,
    ) -> None:
        self._rules = rules
        self._name = name
        self._read = read or read_keys
        self._keys: Keys = {}
        self._wanted = trio.Event()
        self._read_again = trio.Event()
        self._extra_allowed_at = -math.inf
        self._is_reading = True  # ``run`` begins with a reading
        self._is_read = False
        self._is_failing = False

    @property
    def count(self) -> int:
        """The number of usable keys."""
        return len(self._keys)

    @property
    def is_failing(self) -> bool:
        """True if the last reading has failed."""
        return self._is_failing

    def find(self, key_id: str | None) -> IssuerKey | None:
        """Return the key with this id; without an id, the only key, if there is just one."""
        if key_id is None and len(self._keys) == 1:
            (only,) = self._keys.values()
            return only
        return self._keys.get(key_id)

    async def wait_for(self, key_id: str | None) -> None:
        """Return once the key is known, or another reading has not found it.

        There is no other reading if the last one was a moment ago.
        """
        if self.find(key_id) is not None:
            return
        if not (self._is_reading or self._wanted.is_set()):
            now = trio.current_time()
            if now < self._extra_allowed_at:
                return
            self._extra_allowed_at = now + EXTRA_READING_SECONDS_MIN
            self._wanted.set()
        with trio.move_on_after(WAIT_SECONDS_MAX):
            await self._read_again.wait()

    async def run(self) -> None:
        """Read the keys now, regularly, and when a login wants them."""
        rules = self._rules
        pause_s = rules.retry_ms / 1000
        while True:
            self._is_reading = True
            is_read = await self._try_read()
            self._is_reading = False
            self._wanted = trio.Event()
            done, self._read_again = self._read_again, trio.Event()
            done.set()
            if is_read:
                pause_s = rules.retry_ms / 1000
                with trio.move_on_after(rules.refresh_ms / 1000):
                    await self._wanted.wait()
            else:
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, rules.retry_max_ms / 1000)

    async def _try_read(self) -> bool:
        assert self._rules.keys_url is not None
        place = f"{self._name}: {self._rules.keys_url.text}"
        try:
            keys = await self._read(self._rules)
        except DocumentError as error:
            if not self._is_failing:
                stay = "the last known keys stay in use" if self._keys else "logins fail"
                _logger.warning("%s: the issuer's keys: %s; %s", self._name, error, stay)
            self._is_failing = True
            return False
        if not keys and (self._keys or not self._is_read):
            _logger.warning("%s: the issuer lists no usable key; logins fail", place)
        elif keys and (self._is_failing or not self._keys):
            _logger.info("%s: keys read: %d", place, len(keys))
        self._is_read = True
        self._is_failing = False
        self._keys = keys
        return True


async def read_keys(rules: TokenRules) -> Keys:
    """Return the usable keys of the issuer by their ids.

    A thread parses them: a thousand keys take 30 ms, and loading the library takes longer.

    Raises:
        DocumentError: the document cannot be read.
    """
    url = rules.keys_url
    assert url is not None
    if url.path is not None:
        document = await read_file(url)
    else:
        answer = await exchange(url, rules.keys_tls, headers={"Accept": "application/json"})
        if answer.status != _OK:
            raise DocumentError(f"{url.text}: status {answer.status}")
        document = answer.body
    return await run_in_thread(parse_keys, document, abandon_on_cancel=True)


def parse_keys(document: bytes) -> Keys:
    """Return the usable keys of a JWKS by their ids.

    Keys of other kinds, or for encryption, are left out.

    Raises:
        DocumentError: it is no JWKS.
    """
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DocumentError("expected a JWKS: an object with keys") from None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise DocumentError(f"expected a list of at most {KEYS_MAX} keys")
    keys = {}
    for fields in listed:
        key = _parse_key(fields) if isinstance(fields, dict) else None
        key_id = fields.get("kid") if isinstance(fields, dict) else None
        if key is not None and (key_id is None or isinstance(key_id, str)):
            keys[key_id] = key
    return keys


def _parse_key(fields: dict[str, Any]) -> IssuerKey | None:
    # Imported only here: most daemons have no listener with OAUTHBEARER.
    from cryptography.exceptions import UnsupportedAlgorithm
    from jwt import PyJWK, PyJWTError

    algorithms = _list_algorithms(fields)
    if not algorithms or fields.get("use", "sig") != "sig" or "d" in fields:
        return None
    operations = fields.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    try:
        loaded: PyJWK = PyJWK(fields, algorithm=algorithms[0])
    except (PyJWTError, UnsupportedAlgorithm, ValueError, TypeError):
        return None
    if getattr(loaded.key, "key_size", _RSA_BITS_MIN) < _RSA_BITS_MIN and fields["kty"] == "RSA":
        return None
    return IssuerKey(loaded.key, algorithms)


def _list_algorithms(fields: Mapping[str, Any]) -> Sequence[str]:
    """Return the algorithms of a key's kind; only its own one if it names one."""
    match fields.get("kty"), fields.get("crv"):
        case "RSA", _:
            possible: Sequence[str] = _RSA
        case "EC" | "OKP", str(curve):
            possible = _CURVES.get(curve, ())
        case _:
            possible = ()
    named = fields.get("alg")
    return possible if named is None else [each for each in possible if each == named]
