"""Hide names in the audit log: replace them by a keyed hash or by ``***``.

**Invariant:** a hidden name occurs nowhere in the result, including the rule. With the same
secret, equal names of one kind have equal hashes in every process. Without the secret, nobody can
find a name by trying candidates. No ``repr`` shows the secret.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from authorizerd.acl.audit.caller import UNIX_ADDRESS, AuditedCaller
from authorizerd.acl.decision import Decision, MatchingAcl, UnjudgeableAcl
from authorizerd.acl.model import WILDCARD, WILDCARD_PRINCIPAL, Acl, Question

CUT: Final = "***"
HASH_PREFIX: Final = "hmac-"
HASH_DIGITS: Final = 32
"""Half of SHA-256's 64 digits. Collisions stay unlikely even among a billion names."""

_CACHE_SIZE: Final = 8192
_CACHED_CHARACTERS_MAX: Final = 256


class Masking(StrEnum):
    """How a name is hidden."""

    NONE = "none"
    HASH = "hash"
    CUT = "cut"


class Masker:
    """Hide names of principals, hosts and resources.

    Args:
        principal, host, resource: how names of each kind are hidden.
        secret: the key of the hashes; unused if nothing is hashed.
    """

    __slots__ = ("_hashed", "_host", "_principal", "_resource", "masked", "secret")

    def __init__(
        self, *, principal: Masking, host: Masking, resource: Masking, secret: bytes
    ) -> None:
        self._principal: Final = principal
        self._host: Final = host
        self._resource: Final = resource
        self.secret: Final = secret
        maskings = {"principal": principal, "host": host, "resource": resource}
        self.masked: Final = tuple(
            kind for kind, masking in maskings.items() if masking is not Masking.NONE
        )
        """The kinds of names that are hidden: ``principal``, ``host``, ``resource``."""
        # Each masker has its own cache: a shared one would keep every masker and secret alive.
        self._hashed: Final = lru_cache(_CACHE_SIZE)(self._hash)

    def question(self, question: Question) -> Question:
        """Return the question with its names hidden."""
        return msgspec.structs.replace(
            question,
            principal=self.principal(question.principal),
            host=None if question.host is None else self._mask(self._host, "host", question.host),
            resource_name=self._mask(self._resource, "resource", question.resource_name),
        )

    def decision(self, decision: Decision) -> Decision:
        """Return the decision with the names in its rule hidden. Wildcards stay."""
        rule = decision.rule
        if not isinstance(rule, MatchingAcl | UnjudgeableAcl):
            return decision
        masked = msgspec.structs.replace(rule, acl=self._acl(rule.acl))
        return Decision(decision.allowed, masked)

    def principal(self, principal: str) -> str:
        """Return the principal with its name hidden. Its type stays."""
        kind, colon, name = principal.partition(":")
        if not colon:
            return self._mask(self._principal, "principal", principal)
        return f"{kind}:{self._mask(self._principal, 'principal', name)}"

    def caller(self, caller: AuditedCaller) -> AuditedCaller:
        """Return the caller with its name and its address hidden."""
        principal, address = caller.principal, caller.address
        return msgspec.structs.replace(
            caller,
            principal=None if principal is None else self.principal(principal),
            address=(
                address if address == UNIX_ADDRESS else self._mask(self._host, "host", address)
            ),
        )

    def _acl(self, acl: Acl) -> Acl:
        is_everyone = acl.principal == WILDCARD_PRINCIPAL
        return msgspec.structs.replace(
            acl,
            principal=acl.principal if is_everyone else self.principal(acl.principal),
            host=acl.host if acl.host == WILDCARD else self._mask(self._host, "host", acl.host),
            resource_name=(
                acl.resource_name
                if acl.resource_name == WILDCARD
                else self._mask(self._resource, "resource", acl.resource_name)
            ),
        )

    def _mask(self, masking: Masking, kind: str, name: str) -> str:
        if masking is Masking.NONE:
            return name
        if masking is Masking.CUT:
            return CUT
        if len(name) > _CACHED_CHARACTERS_MAX:
            return self._hash(kind, name)  # not cached: the cache does not limit the size of names
        return self._hashed(kind, name)

    def _hash(self, kind: str, name: str) -> str:
        # Hash the kind too: nobody may see that a user and a topic have the same name.
        text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        return HASH_PREFIX + hmac.digest(self.secret, text, "sha256").hex()[:HASH_DIGITS]
