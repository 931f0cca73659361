"""The changes that one AlterUserScramCredentials request makes, and the result of each user.

**Invariant:** a request changes a user's credentials at most once. If one user has an error, only
that user is not changed. The salted password, which is equivalent to the password, is immediately
replaced by the keys that are derived from it, and appears in no result.

The daemon is stricter than Kafka in two cases, in which nobody could log in with the credential.
The salted password must be as long as the mechanism's hash. The salt must have 1 to
``SALT_BYTES_MAX`` bytes, also because the daemon sends it to anyone who begins to authenticate.

Source: KIP-554; Kafka 4.3 ScramControlManager.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from authorizerd.acl.updates import BYTES_PER_REQUEST_MAX, TOO_MANY_CREATED, Plan
from authorizerd.actors.updates import ClusterPlan
from authorizerd.daemon.kafka.cluster_updates import Results
from authorizerd.image.changes import CredentialAdded, CredentialRemoved
from authorizerd.image.cluster import ClusterImage
from authorizerd.image.features import METADATA_VERSION_FEATURE, METADATA_VERSION_WITH_SCRAM
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from authorizerd.protocol.records.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    make_credential,
)

SALT_BYTES_MAX: Final = 1024

_RECORD_BYTES_WITHOUT_NAME_AND_SALT: Final = 192

CredentialChange = CredentialAdded | CredentialRemoved


# Not tracked by the garbage collector: a request may have thousands.
class WantedChange(msgspec.Struct, frozen=True, gc=False):
    """A requested change of one user, or an error that does not depend on the log."""

    user: str
    change: CredentialChange | ApiError


def _unacceptable(text: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)


_TWICE: Final = ApiError(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
_UNSUPPORTED: Final = ApiError(
    ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
)
_ABSENT: Final = ApiError(
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)
_UNNAMED: Final = _unacceptable("Username must not be empty")
_UNKNOWN: Final = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW: Final = _unacceptable("Too few iterations")
_TOO_MANY: Final = _unacceptable("Too many iterations")
_WRONG_SALT: Final = _unacceptable(f"The salt must have 1 to {SALT_BYTES_MAX} bytes")
_TOO_LARGE: Final = ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY_CREATED)

_MECHANISMS: Final = {int(mechanism): mechanism for mechanism in ScramMechanism}
_HASH_BYTES: Final = {
    mechanism: hashlib.new(mechanism.hash_name).digest_size for mechanism in ScramMechanism
}
_WRONG_SALTED: Final = {
    mechanism: _unacceptable(f"The salted password of {mechanism.text} must have {size} bytes")
    for mechanism, size in _HASH_BYTES.items()
}


def read_changes(asked: AlterUserScramCredentialsRequest) -> Iterator[WantedChange]:
    """Yield the changes that a request asks for: deletions first, then upsertions."""
    for deletion in asked.deletions:
        yield WantedChange(deletion.name, _deletion(deletion))
    for upsertion in asked.upsertions:
        yield WantedChange(upsertion.name, _upsertion(upsertion))


def plan_changes(image: ClusterImage, wanted: Sequence[WantedChange]) -> ClusterPlan[Results]:
    """Plan the changes of one request. The results are in the order of the request."""
    planned: dict[str, CredentialChange | ApiError] = {}
    for each in wanted:
        before = planned.get(each.user)
        if before is None:
            planned[each.user] = _check(image, each.change)
        elif not isinstance(before, ApiError):  # as in Kafka, the first error counts
            planned[each.user] = _TWICE
    changes: list[CredentialChange] = []
    results: dict[str, ApiError | None] = {}
    size = 0
    for user, outcome in planned.items():
        if isinstance(outcome, ApiError):
            results[user] = outcome
        else:
            changes.append(outcome)
            results[user] = None
            size += _record_bytes_max(outcome)
    if size > BYTES_PER_REQUEST_MAX:
        return Plan((), {user: error or _TOO_LARGE for user, error in results.items()})
    return Plan(tuple(changes), results)


def _check(image: ClusterImage, change: CredentialChange | ApiError) -> CredentialChange | ApiError:
    """Return the change, or the error that rejects it in this state of the log."""
    if image.features.get(METADATA_VERSION_FEATURE, 0) < METADATA_VERSION_WITH_SCRAM:
        return _UNSUPPORTED
    if isinstance(change, CredentialRemoved):
        return change if (change.user, change.mechanism) in image.credentials else _ABSENT
    return change


def _deletion(asked: ScramCredentialDeletion) -> CredentialRemoved | ApiError:
    mechanism = _mechanism(asked)
    if isinstance(mechanism, ApiError):
        return mechanism
    return CredentialRemoved(asked.name, mechanism)


def _upsertion(asked: ScramCredentialUpsertion) -> CredentialAdded | ApiError:
    mechanism = _mechanism(asked)
    if isinstance(mechanism, ApiError):
        return mechanism
    if asked.iterations < ITERATIONS_MIN:
        return _TOO_FEW
    if asked.iterations > ITERATIONS_MAX:
        return _TOO_MANY
    if not 0 < len(asked.salt) <= SALT_BYTES_MAX:
        return _WRONG_SALT
    if len(asked.salted_password) != _HASH_BYTES[mechanism]:
        return _WRONG_SALTED[mechanism]
    credential = make_credential(mechanism, asked.salted_password, asked.salt, asked.iterations)
    return CredentialAdded(asked.name, mechanism, credential)


def _mechanism(
    asked: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> ScramMechanism | ApiError:
    if not asked.name:
        return _UNNAMED
    return _MECHANISMS.get(asked.mechanism, _UNKNOWN)


def _record_bytes_max(change: CredentialChange) -> int:
    salt_bytes = len(change.credential.salt) if isinstance(change, CredentialAdded) else 0
    return _RECORD_BYTES_WITHOUT_NAME_AND_SALT + len(change.user.encode()) + salt_bytes
