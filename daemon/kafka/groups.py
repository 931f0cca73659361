"""DescribeGroups and ListGroups: no group exists here, but rights to groups are reported.

**Invariant:** only a caller who may describe a group learns that it does not exist.

Source: KIP-430, KIP-1043; Kafka 4.3 KafkaApis, GroupMetadataManager.describeGroups.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from authorizerd.acl.model import CLUSTER_NAME, ResourceType
from authorizerd.acl.operations import NOT_REQUESTED
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.daemon.kafka.codec import version_of
from authorizerd.daemon.kafka.permissions import RequestRights, Rights
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ErrorCode
from authorizerd.protocol.kafka.requests import DescribeGroupsRequest, ListGroupsRequest
from authorizerd.protocol.kafka.responses import (
    DescribedGroup,
    DescribeGroupsAnswer,
    ListGroupsAnswer,
)

DEAD: Final = "Dead"
"""The state of a group that does not exist."""

_NOT_FOUND: Final = 6
"""From this version on, DescribeGroups returns an error for a nonexistent group."""


class GroupHandlers:
    """Each method answers an API. It raises RefusedError if the whole request has an error."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._rights = Rights(authorizer)

    async def describe(
        self, asked: DescribeGroupsRequest, context: RequestContext
    ) -> DescribeGroupsAnswer:
        describe = partial(
            _describe,
            version_of(context),
            self._rights.pin(context),
            asked.include_authorized_operations,
        )
        return DescribeGroupsAnswer(groups=LazyItems(describe, asked.groups))

    async def list_all(self, _: ListGroupsRequest, context: RequestContext) -> ListGroupsAnswer:
        """Return an empty list to every caller. Its rights are checked only for the audit log."""
        rights = self._rights.pin(context)
        rights.may_describe(ResourceType.CLUSTER, [CLUSTER_NAME], log_if_denied=False)
        return ListGroupsAnswer()


def _describe(
    version: int, rights: RequestRights, wants_operations: bool, name: str
) -> DescribedGroup:
    if not rights.may_describe(ResourceType.GROUP, [name])[0]:
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=name)
    if version >= _NOT_FOUND:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {name} not found."[:TEXT_CHARACTERS_MAX],
            group_id=name,
            group_state=DEAD,
        )
    operations = rights.operations(ResourceType.GROUP, name) if wants_operations else NOT_REQUESTED
    return DescribedGroup(group_id=name, group_state=DEAD, authorized_operations=operations)
