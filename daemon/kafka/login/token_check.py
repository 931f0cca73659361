"""Check the tokens of OAUTHBEARER: who issued them, for whom, and until when.

**Invariant:** a token logs in only if its signature is valid by a key of the issuer, and if all
configured claims match. Unsecured tokens are accepted only if the rules have no keys.

Source: RFC 7519, RFC 8725; Kafka 4.3 BrokerJwtValidator, ClaimValidationUtils,
OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from authorizerd.config.oauth import TokenRules
from authorizerd.daemon.kafka.login.issuer_keys import IssuerKeys

if TYPE_CHECKING:
    from jwt.types import Options

_LIFETIME_SECONDS_MAX: Final = 100 * 365 * 86_400.0
"""Kafka's clients count nanoseconds, and fail on longer sessions."""
HEADER_CHARACTERS_MAX: Final = 8192
"""Kept small, since the header is read more than once on the event loop."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON may have half of a character, which no answer can contain."""

# All of them are stated, since without signatures the library checks nothing by default.
_OPTIONS: Final[dict[str, Any]] = {
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss"), True),
    **dict.fromkeys(("verify_sub", "verify_jti"), False),
}


class InvalidTokenError(Exception):
    """A token is invalid. The text is for the log: the client does not learn the reason."""


class CheckedToken(NamedTuple):
    """The user of a valid token, and for how many seconds it stays valid, not below 0."""

    user: str
    lifetime_s: float


class TokenCheck:
    """Checks tokens by a listener's rules.

    Args:
        keys: the issuer's keys; None for unsecured tokens.
    """

    def __init__(self, rules: TokenRules, keys: IssuerKeys | None) -> None:
        assert (keys is None) == (rules.keys_url is None)
        self._rules = rules
        self.keys: Final = keys

    @property
    def is_secured(self) -> bool:
        """False if anyone can make a token that logs in."""
        return self.keys is not None

    def knows_key(self, token: str) -> bool:
        """Return False if a token names a key that another reading of the keys may find."""
        try:
            return self.keys is None or self.keys.find(_read_header(token).get("kid")) is not None
        except InvalidTokenError:
            return True  # ``check`` gives the reason

    async def wait_for_key(self, token: str) -> None:
        """Wait until the key that a token names is known, or certainly is not."""
        assert self.keys is not None, "a key is not known"
        await self.keys.wait_for(_read_header(token).get("kid"))

    def check(self, token: str) -> CheckedToken:
        """Return who a token logs in.

        Raises:
            InvalidTokenError: it is not valid.
        """
        claims = self._verify(token)
        user = claims.get(self._rules.user_claim)
        if not isinstance(user, str) or not user.strip() or _SURROGATE.search(user):
            raise InvalidTokenError(f"the claim {self._rules.user_claim} has no name")
        _check_scopes(claims.get(self._rules.scope_claim))
        now = time.time()
        # A number of any size is valid, and a float cannot hold the largest ones.
        ends_at = min(int(claims["exp"]), now + _LIFETIME_SECONDS_MAX)
        return CheckedToken(user, max(0.0, ends_at - now))

    def _verify(self, token: str) -> dict[str, Any]:
        """Return the claims of a token, after all checks that need no claim of ours."""
        # Imported only here: most daemons have no listener with OAUTHBEARER.
        import jwt

        rules = self._rules
        required = ["exp", "iat", *(["iss"] if rules.issuer else ())]
        header = _read_header(token)
        key = None if self.keys is None else self.keys.find(header.get("kid"))
        if self.keys is not None and key is None:
            raise InvalidTokenError("the issuer has no such key (kid)")
        if key is None and (header.get("alg") != "none" or not token.endswith(".")):
            raise InvalidTokenError("expected an unsecured token: alg none, and no signature")
        options = _OPTIONS | {"require": required, "verify_signature": key is not None}
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                "" if key is None else key.key,
                algorithms=() if key is None else key.algorithms,
                audience=rules.audiences or None,
                issuer=rules.issuer,
                leeway=rules.skew_s,
                options=cast("Options", options),
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            text = str(error) or type(error).__name__
            if isinstance(error, jwt.InvalidAudienceError):
                text += _compare(token, "aud", ", ".join(rules.audiences) or "none")
            elif isinstance(error, jwt.InvalidIssuerError):
                text += _compare(token, "iss", rules.issuer or "none")
            raise InvalidTokenError(text[:200]) from None
        return claims


def _read_header(token: str) -> dict[str, Any]:
    """Return the header of a token, which is not verified yet. Its ``kid`` is a text, if any."""
    import jwt

    header = token.partition(".")[0]
    if len(header) > HEADER_CHARACTERS_MAX:
        raise InvalidTokenError("its header is too large")
    try:
        # Without the rest, which the library would decode, too.
        return jwt.get_unverified_header(f"{header}..")
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise InvalidTokenError("it is not a token (JWS)") from None


def _compare(token: str, claim: str, expected: str) -> str:
    """Return what a claim should be, and what it is, of a token whose signature was checked."""
    import jwt

    claims = jwt.decode(token, options={"verify_signature": False})
    return f": expected {claim} {expected}, found {claims.get(claim)!r}"


def _check_scopes(scopes: object) -> None:
    """Check that the claim has a text or texts. As in Kafka, it may be absent."""
    listed = [scopes] if isinstance(scopes, str) else scopes
    if listed is None:
        return
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InvalidTokenError("the scopes are not texts")
    names = [each.strip() for each in listed]
    if "" in names or len(set(names)) != len(names):
        raise InvalidTokenError("a scope is empty or repeated")
