"""DescribeUserScramCredentials and AlterUserScramCredentials.

**Invariant:** an answer contains a credential's mechanism and iterations, never its salt or keys.

Source: KIP-554; Kafka 4.3 ScramImage, ScramControlManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from immutables import Map

from authorizerd.actors.authorizer import RequestContext
from authorizerd.actors.published import View
from authorizerd.actors.steps import collect
from authorizerd.daemon.kafka.cluster_updates import ClusterUpdates, change_cluster
from authorizerd.daemon.kafka.credential_plan import plan_changes, read_changes
from authorizerd.image.changes import ScramCredential
from authorizerd.image.cluster import ClusterImage, Login
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    RequestedUser,
)
from authorizerd.protocol.kafka.responses import (
    AlteredUser,
    AlterUserScramCredentialsAnswer,
    CredentialInfo,
    DescribedUser,
    DescribeUserScramCredentialsAnswer,
)
from authorizerd.protocol.records.scram import ScramMechanism

_ABSENT: Final = "Attempt to describe a user credential that does not exist: "
_TWICE: Final = "Cannot describe SCRAM credentials for the same user twice in a single request: "

Credentials = Map[Login, ScramCredential]


class ScramCredentialHandlers:
    """Each method answers an API."""

    def __init__(self, image: View[ClusterImage], updates: ClusterUpdates) -> None:
        self._image = image
        self._updates = updates

    async def describe(
        self, asked: DescribeUserScramCredentialsRequest, _: RequestContext
    ) -> DescribeUserScramCredentialsAnswer:
        """Describe the named users, or all users if none is named."""
        credentials = self._image.newest.credentials
        if asked.users:
            uses = _count_uses(asked.users)
            users, repeated = [*uses], {user for user, is_repeated in uses.items() if is_repeated}
        else:
            users, repeated = await collect(_list_users(credentials)), set()
        described = LazyItems(partial(_describe, credentials, repeated), users)
        return DescribeUserScramCredentialsAnswer(results=described)

    async def alter(
        self, asked: AlterUserScramCredentialsRequest, _: RequestContext
    ) -> AlterUserScramCredentialsAnswer:
        """Change the credentials, and answer once the changes are durable and applied."""
        wanted = await collect(read_changes(asked))
        results: Mapping[str, ApiError | None] = {}
        if wanted:
            results = await change_cluster(
                self._updates,
                lambda image: plan_changes(image, wanted),
                (each.user for each in wanted),
            )
        return _answer_altered(results)


def _answer_altered(results: Mapping[str, ApiError | None]) -> AlterUserScramCredentialsAnswer:
    def alter(user: str) -> AlteredUser:
        error = results[user]
        if error is None:
            return AlteredUser(user=user)
        return AlteredUser(user=user, error_code=error.code, error_message=error.message)

    return AlterUserScramCredentialsAnswer(results=LazyItems(alter, [*results]))


def _count_uses(asked: Sequence[RequestedUser]) -> dict[str, bool]:
    """Return each user once, in order, with True if the request repeats it."""
    uses: dict[str, bool] = {}
    for each in asked:
        uses[each.name] = each.name in uses
    return uses


def _list_users(credentials: Credentials) -> Iterator[str]:
    """Yield every user with a credential once, in no particular order."""
    for user, mechanism in credentials:
        # List a user at its first credential. Freeing a set of all users would take long.
        if mechanism == next((m for m in ScramMechanism if (user, m) in credentials), None):
            yield user


def _describe(credentials: Credentials, repeated: set[str], user: str) -> DescribedUser:
    if user in repeated:
        return _error(user, ErrorCode.DUPLICATE_RESOURCE, _TWICE)
    infos = [
        CredentialInfo(mechanism, credential.iterations)
        for mechanism in ScramMechanism
        if (credential := credentials.get((user, mechanism))) is not None
    ]
    if not infos:
        return _error(user, ErrorCode.RESOURCE_NOT_FOUND, _ABSENT)
    return DescribedUser(user=user, credential_infos=infos)


def _error(user: str, code: ErrorCode, text: str) -> DescribedUser:
    message = f"{text}{user}"[:TEXT_CHARACTERS_MAX]
    return DescribedUser(user=user, error_code=code, error_message=message)
