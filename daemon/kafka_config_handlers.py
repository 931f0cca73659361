"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, of this node and of every node.

Law: a resource's changes are checked first, and made all or none; they are answered once they are
durable and in force.

Source: KIP-133, KIP-226, KIP-339; Kafka 4.3 ConfigAdminManager, ConfigHelper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from acl.cluster import ClusterImage
from acl.model import Operation
from actors.authorizer import Authorizer, RequestContext
from actors.completion import Completion
from actors.errors import LogWriteError, UpdateRefusedError
from actors.published import View
from actors.update_queue import ClusterPlan
from config.alterations import Alteration, AlterationError, Changes, check_alterations
from config.dynamic import ConfigSource, Layers, is_secret, type_of, value_as_read
from config.keys import KEYS_BY_NAME
from daemon.config_plan import ConfigPlan
from daemon.kafka_answers import (
    AlterConfigsAnswer,
    AlteredResource,
    ConfigEntry,
    ConfigSynonym,
    DescribeConfigsAnswer,
    DescribedResource,
)
from daemon.kafka_bodies import Answer, read_body, write_body
from daemon.kafka_rights import Rights
from daemon.settings import BROKER_CONFIGS, EVERY_NODE, Settings
from protocol.kafka_acl_responses import Piece
from protocol.kafka_api import ApiKey
from protocol.kafka_connection import KafkaRequest
from protocol.kafka_errors import ApiError, ErrorCode

_NOT_AUTHORIZED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.text
)
_NOT_READY: Final = ApiError(ErrorCode.AUTHORIZER_NOT_READY, ErrorCode.AUTHORIZER_NOT_READY.text)
_DESCRIBABLE: Final = frozenset((2, BROKER_CONFIGS, 8, 16, 32))
"""Kafka's resource types; one that it does not know fails a whole DescribeConfigs."""
_TWICE: Final = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

Resource = tuple[int, str]
Alterations = Mapping[str, Sequence[Alteration]]
"""What is asked of each resource, by its name."""


class ClusterUpdates(Protocol):
    """Where changes of what the log says beside ACLs are written."""

    def change_cluster(
        self,
        plan: Callable[[ClusterImage], ClusterPlan[dict[str, ApiError | None]]],
        take: Callable[[], None],
    ) -> Completion[dict[str, ApiError | None]]: ...


class ConfigHandlers:
    """For each API what answers it, and what refuses it before the ACLs are loaded.

    Raises (all methods): DecodeError, for what Kafka answers by closing the connection.
    """

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

    async def describe(self, request: KafkaRequest, context: RequestContext) -> Answer:
        asked = await read_body(request)
        if any(each.resource_type not in _DESCRIBABLE for each in asked.resources):
            unknown = ApiError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)
            return await _write_undescribed(request, asked.resources, unknown), 0.0
        may = self._rights.may(context, Operation.DESCRIBE_CONFIGS)
        results = [self._described(resource, asked, may) for resource in asked.resources]
        return await write_body(request, DescribeConfigsAnswer(results)), 0.0

    async def refuse_describe(self, request: KafkaRequest) -> list[Piece]:
        asked = await read_body(request)
        return await _write_undescribed(request, asked.resources, _NOT_READY)

    def _described(self, resource: Any, asked: Any, may: bool) -> DescribedResource:  # noqa: ANN401
        kind, name = resource.resource_type, resource.resource_name
        error = self._describe_error(kind, name) if may else _NOT_AUTHORIZED
        if error is not None:
            return _undescribed(error, kind, name)
        layers = self._settings.layers
        names = layers.names() if name else {*layers.everywhere}
        if resource.configuration_keys:
            names &= {*resource.configuration_keys}
        entries = [
            _entry(
                layers,
                each,
                is_default=not name,
                has_synonyms=asked.include_synonyms,
                has_documentation=getattr(asked, "include_documentation", False),
            )
            for each in sorted(names)
        ]
        return DescribedResource(
            resource_type=kind, resource_name=name, configs=[*filter(None, entries)]
        )

    def _describe_error(self, kind: int, name: str) -> ApiError | None:
        if kind != BROKER_CONFIGS:
            return ApiError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)
        number = _number(name)
        if name == EVERY_NODE or number == self._node_id:
            return None
        if number is None:
            return _invalid(f"Broker id must be an integer, but it is: {name}")
        expected = f"expected {self._node_id} or empty string, but received {number}"
        return _invalid(f"Unexpected broker id, {expected}")

    async def alter(self, request: KafkaRequest, context: RequestContext) -> Answer:
        """Answer AlterConfigs and IncrementalAlterConfigs, which differ in what is left alone.

        As in Kafka, what is wrong with a resource comes before the right to alter it.
        """
        asked = await read_body(request)
        resources = [(each.resource_type, each.resource_name) for each in asked.resources]
        counts = Counter(resources)
        results: list[ApiError | None] = []
        wanted: dict[str, Sequence[Alteration]] = {}
        for each, resource in zip(asked.resources, resources, strict=True):
            alterations = _alterations(request.api_key, each.configs)
            error = self._alter_error(*resource, alterations)
            if counts[resource] > 1:
                error = _TWICE
            results.append(error)
            if error is None:
                wanted[resource[1]] = alterations
        altered = await self._alter(request, context, wanted, asked.validate_only)
        for number, (_, name) in enumerate(resources):
            if results[number] is None:
                results[number] = altered[name]
        return await _write_altered(request, resources, results), 0.0

    async def refuse_alter(self, request: KafkaRequest) -> list[Piece]:
        asked = await read_body(request)
        resources = [(each.resource_type, each.resource_name) for each in asked.resources]
        return await _write_altered(request, resources, [_NOT_READY] * len(resources))

    def _alter_error(
        self, kind: int, name: str, alterations: Sequence[Alteration]
    ) -> ApiError | None:
        try:
            check_alterations(alterations)
        except AlterationError as error:
            return _invalid(str(error))
        if kind != BROKER_CONFIGS:
            return _invalid(f"Unknown resource type {kind}")
        if name == EVERY_NODE or name == str(self._node_id):
            return None
        number = _number(name)
        if number is None:
            return _invalid(f"Node id must be an integer, but it is: {name}")
        return _invalid(f"Unexpected broker id, expected {self._node_id}, but received {number}")

    async def _alter(
        self,
        request: KafkaRequest,
        context: RequestContext,
        wanted: Alterations,
        validate_only: bool,
    ) -> dict[str, ApiError | None]:
        """Plan and make what is wanted; return each resource's error, by its name."""
        is_super_user = context.principal in self._settings.super_users
        guarded: Changes = {}

        def plan(image: ClusterImage) -> ClusterPlan[dict[str, ApiError | None]]:
            planning = ConfigPlan(image, self._settings, is_super_user=is_super_user)
            for name, alterations in wanted.items():
                planning.add(name, alterations, is_whole=request.api_key == ApiKey.ALTER_CONFIGS)
            guarded.update(planning.guarded)
            return ClusterPlan(tuple(planning.changes), planning.results)

        def take() -> None:
            self._settings.refresh()
            self._settings.set_guarded(guarded)

        if not self._rights.may(context, Operation.ALTER_CONFIGS):
            planned = plan(self._image.newest).result
            return {name: _unless_authorized(error) for name, error in planned.items()}
        if validate_only or not wanted:
            return plan(self._image.newest).result
        try:
            return await self._updates.change_cluster(plan, take)
        except UpdateRefusedError as error:
            failed = ApiError(ErrorCode.BROKER_NOT_AVAILABLE, str(error))
        except LogWriteError as error:
            failed = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return dict.fromkeys(wanted, failed)


def _alterations(api_key: ApiKey, configs: Sequence[Any]) -> list[Alteration]:
    if api_key == ApiKey.ALTER_CONFIGS:
        return [Alteration(each.name, 0, each.value) for each in configs]
    return [Alteration(each.name, each.config_operation, each.value) for each in configs]


def _entry(
    layers: Layers, name: str, *, is_default: bool, has_synonyms: bool, has_documentation: bool
) -> ConfigEntry | None:
    """Return what is told of one key, None where the default of every node has none."""
    values = layers.values_of(name)
    if is_default:
        values = [each for each in values if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER]
    if not values:
        return None
    secret = is_secret(name)
    shown = [(None if secret else each.value, each.source) for each in values]
    value = shown[0][0]
    key = KEYS_BY_NAME.get(name)
    return ConfigEntry(
        name=name,
        value=value if value is None or is_default else value_as_read(name, value),
        read_only=key is None or not key.reloadable,
        config_source=shown[0][1],
        is_default=shown[0][1] == ConfigSource.DEFAULT,
        is_sensitive=secret,
        synonyms=[ConfigSynonym(name, *each) for each in shown] if has_synonyms else [],
        config_type=type_of(name),
        documentation=key.doc if key is not None and has_documentation else None,
    )


async def _write_altered(
    request: KafkaRequest, resources: Sequence[Resource], results: Sequence[ApiError | None]
) -> list[Piece]:
    return await write_body(request, AlterConfigsAnswer([*map(_altered, resources, results)]))


async def _write_undescribed(
    request: KafkaRequest, resources: Sequence[Any], error: ApiError
) -> list[Piece]:
    refused = [_undescribed(error, each.resource_type, each.resource_name) for each in resources]
    return await write_body(request, DescribeConfigsAnswer(refused))


def _unless_authorized(error: ApiError | None) -> ApiError:
    """Return what one without the right is told where ``error`` is all that is wrong."""
    if error is None or error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return _NOT_AUTHORIZED
    return error


def _altered(resource: Resource, error: ApiError | None) -> AlteredResource:
    kind, name = resource
    if error is None:
        return AlteredResource(resource_type=kind, resource_name=name)
    return AlteredResource(
        resource_type=kind,
        resource_name=name,
        error_code=error.code,
        error_message=error.message,
    )


def _undescribed(error: ApiError, kind: int, name: str) -> DescribedResource:
    return DescribedResource(
        resource_type=kind,
        resource_name=name,
        error_code=error.code,
        error_message=error.message,
    )


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
