"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, for this node or for all nodes.

**Invariant:** all changes of a resource are checked first; then either all or none of them are
made. The daemon answers once they are durable and in force.

Source: KIP-133, KIP-226, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from authorizerd.acl.model import Operation
from authorizerd.actors.authorizer import Authorizer, RequestContext
from authorizerd.actors.published import View
from authorizerd.config.alterations import (
    Alteration,
    AlterationError,
    AlterOperation,
    InvalidConfigError,
    Wanted,
    check_alterations,
    want_incremental,
    want_replacement,
)
from authorizerd.config.dynamic import SUPER_USER_ONLY_KEYS
from authorizerd.daemon.kafka.cluster_updates import ClusterUpdates
from authorizerd.daemon.kafka.config_change import ConfigChange
from authorizerd.daemon.kafka.config_descriptions import (
    Descriptions,
    are_of_known_types,
    broker_number,
    invalid_request,
    merge_repeated,
    refuse_description,
    shorten,
)
from authorizerd.daemon.kafka.permissions import NOT_AUTHORIZED, Rights
from authorizerd.daemon.settings import BROKER_CONFIGS, EVERY_NODE, Settings
from authorizerd.image.cluster import ClusterImage
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import (
    AlterConfigsRequest,
    ConfigAlteration,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    RequestedConfig,
    ResourceToAlter,
    ResourceToReplace,
)
from authorizerd.protocol.kafka.responses import (
    AlterConfigsAnswer,
    AlteredResource,
    DescribeConfigsAnswer,
)

_ELSEWHERE: Final = ApiError(ErrorCode.INVALID_REQUEST)
"""A placeholder for the error of a resource that this node cannot alter. There may be many, so the
text of each error is created only when it is written.
"""
_TWICE: Final = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

_FILE_ALONE: Final = invalid_request(
    "This daemon follows a cluster, so no client can set its keys: change them in its"
    " configuration file, and send SIGHUP. Send changes for the cluster's brokers to a broker"
)

Resource = tuple[int, str]
_Altered: TypeAlias = ResourceToAlter | ResourceToReplace
Want: TypeAlias = Callable[[Sequence[Alteration]], Wanted]
"""A function that checks one resource's alterations and returns the requested changes."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """The resources of a request, checked before the caller's right to alter them.

    ``results`` has one entry per resource in the request's order: an error, or None. For the
    resources without an error, ``wanted`` has the changes and ``positions`` the indices, by name.
    """

    results: list[ApiError | None]
    wanted: dict[str, Wanted]
    positions: dict[str, int]


class ConfigHandlers:
    """Each method answers an API. It raises RefusedError if the whole request has an error."""

    def __init__(
        self,
        authorizer: Authorizer,
        image: View[ClusterImage],
        updates: ClusterUpdates,
        settings: Settings,
    ) -> None:
        self._rights = Rights(authorizer)
        self._image = image
        self._updates = updates
        self._settings = settings
        self._node_id = settings.node_id

    async def describe(
        self, asked: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsAnswer:
        wanted = merge_repeated(asked.resources)
        if not are_of_known_types(wanted):
            unknown = ApiError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)
            refuse = partial(refuse_description, unknown)
            refused = LazyItems(lambda each: refuse(each.kind, each.name), wanted)
            return DescribeConfigsAnswer(results=refused)
        may = self._rights.may(context, Operation.DESCRIBE_CONFIGS)
        descriptions = Descriptions(
            asked,
            may,
            self._settings.layers,
            self._node_id,
            are_fixed=self._settings.is_changed_by_file_alone,
        )
        return DescribeConfigsAnswer(results=LazyItems(descriptions.describe, wanted))

    async def alter(
        self,
        asked: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        context: RequestContext,
    ) -> AlterConfigsAnswer:
        """Answer AlterConfigs (resets unnamed keys) and IncrementalAlterConfigs (keeps them).

        As in Kafka, errors in a resource are reported before a missing right to alter it.
        """
        plugged = self._settings.plugged
        was_super_user = self._is_super_user(context)
        # Parse guarded values only for super users: long lists take many milliseconds.
        forbidden = frozenset[str]() if was_super_user else SUPER_USER_ONLY_KEYS | plugged
        want = want_replacement if isinstance(asked, AlterConfigsRequest) else want_incremental
        checked = self._check_all(asked.resources, lambda each: want(each, plugged, forbidden))
        # As in Kafka, check the right only now: any caller learns that a resource is invalid.
        may = self._rights.may(context, Operation.ALTER_CONFIGS)
        change = ConfigChange(
            checked.wanted,
            self._settings,
            self._image,
            self._updates,
            # Values that were not parsed above must not become acceptable later.
            is_super_user=lambda: was_super_user and self._is_super_user(context),
        )
        if may:
            altered = await change.make(validate_only=asked.validate_only)
        else:  # as in Kafka, other errors are reported before the missing right
            altered = {name: _unless_authorized(error) for name, error in change.check().items()}
        for name, error in altered.items():
            checked.results[checked.positions[name]] = error
        return self._answer_altered(asked.resources, checked.results)

    def _is_super_user(self, context: RequestContext) -> bool:
        """Return True if the sender is a super user now."""
        return context.principal in self._settings.super_users

    def _check_all(self, asked: Sequence[_Altered], want: Want) -> _Checked:
        """Check each resource for errors other than a missing right to alter it."""
        repeated = _find_repeated(asked)
        checked = _Checked([], {}, {})
        for number, each in enumerate(asked):
            kind, name = each.resource_type, each.resource_name
            wanted: Wanted | ApiError = _TWICE
            if (kind, name) not in repeated:
                wanted = self._find_changes(each, want)
            if isinstance(wanted, ApiError):
                checked.results.append(wanted)
            else:
                checked.results.append(None)
                checked.wanted[name] = wanted
                checked.positions[name] = number
        return checked

    def _find_changes(self, resource: _Altered, want: Want) -> Wanted | ApiError:
        """Return the changes to one resource, or the error that rejects them."""
        configs: Sequence[ConfigAlteration | RequestedConfig] = resource.configs
        alterations = [
            Alteration(
                config.name, getattr(config, "config_operation", AlterOperation.SET), config.value
            )
            for config in configs
        ]
        try:
            check_alterations(alterations)
            if not self._is_alterable(resource.resource_type, resource.resource_name):
                return _ELSEWHERE
            return want(alterations)
        except InvalidConfigError as error:
            return ApiError(ErrorCode.INVALID_CONFIG, str(error))
        except AlterationError as error:
            return invalid_request(str(error))

    def _is_alterable(self, kind: int, name: str) -> bool:
        """Return True if ``_alter_error`` returns None, without creating an error's text."""
        is_here = kind == BROKER_CONFIGS and name in (EVERY_NODE, str(self._node_id))
        return is_here and not self._settings.is_changed_by_file_alone

    def _alter_error(self, kind: int, name: str) -> ApiError | None:
        if kind != BROKER_CONFIGS:
            return invalid_request(f"Unknown resource type {kind}")
        if name == EVERY_NODE or name == str(self._node_id):
            return _FILE_ALONE if self._settings.is_changed_by_file_alone else None
        number = broker_number(name)
        if number is None:
            return invalid_request(f"Node id must be an integer, but it is: {name}")
        return invalid_request(
            f"Unexpected broker id, expected {self._node_id}, but received {number}"
        )

    def _answer_altered(
        self, resources: Sequence[_Altered], results: Iterable[ApiError | None]
    ) -> AlterConfigsAnswer:
        """Return one result for each resource, in order; each is created as it is written."""
        remaining = iter(results)

        def alter(resource: _Altered) -> AlteredResource:
            kind, name, error = resource.resource_type, resource.resource_name, next(remaining)
            if error is _ELSEWHERE:
                error = self._alter_error(kind, name)
            if error is None:
                return AlteredResource(resource_type=kind, resource_name=name)
            return AlteredResource(
                resource_type=kind,
                resource_name=name,
                error_code=error.code,
                error_message=shorten(error),
            )

        return AlterConfigsAnswer(responses=LazyItems(alter, resources))


def _find_repeated(asked: Sequence[_Altered]) -> set[Resource]:
    """Return the resources that a request names more than once."""
    names: dict[int, set[str]] = {}
    repeated: set[Resource] = set()
    for each in asked:
        kind, name = each.resource_type, each.resource_name
        seen = names.setdefault(kind, set())
        if name in seen:
            repeated.add((kind, name))
        seen.add(name)
    return repeated


def _unless_authorized(error: ApiError | None) -> ApiError:
    """Return ``error``, or NOT_AUTHORIZED if it is None or about a missing right."""
    if error is None or error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return NOT_AUTHORIZED
    return error
