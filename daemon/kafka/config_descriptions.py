"""The resources and keys in a DescribeConfigs answer, created as the answer is written.

A resource that a request names twice is described once. Otherwise a few repeated bytes could cause
an answer of any size.

Source: KIP-133, KIP-226; Kafka 4.3 ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from authorizerd.config.dynamic import (
    ConfigSource,
    Layers,
    get_type,
    is_secret,
    may_change,
    normalize_value,
)
from authorizerd.config.keys import KEYS, LISTENER_PREFIX
from authorizerd.config.tls_keys import kafka_ssl_name
from authorizerd.daemon.kafka.permissions import NOT_AUTHORIZED
from authorizerd.daemon.settings import BROKER_CONFIGS, EVERY_NODE
from authorizerd.protocol.kafka.chunked_output import LazyItems
from authorizerd.protocol.kafka.error_codes import TEXT_CHARACTERS_MAX, ApiError, ErrorCode
from authorizerd.protocol.kafka.requests import DescribeConfigsRequest, ResourceToDescribe
from authorizerd.protocol.kafka.responses import ConfigEntry, ConfigSynonym, DescribedResource

_DESCRIBABLE: Final = frozenset((2, BROKER_CONFIGS, 8, 16, 32))
"""Kafka's resource types: topic, broker, broker logger, client metrics, group."""
_NUMBER_CHARACTERS_MAX: Final = 20
_DOCS: Final = {key.name: key.doc for key in KEYS}  # read once here: it takes several ms


@dataclass(slots=True)
class WantedResource:
    """A resource to describe; ``keys`` is None if all keys are wanted."""

    kind: int
    name: str
    keys: set[str] | None


@dataclass(frozen=True, slots=True)
class Descriptions:
    """The answers to the request ``asked``, all from the same configs.

    ``may`` is True if the caller may describe configs, ``are_fixed`` if no client can set a key.
    """

    asked: DescribeConfigsRequest
    may: bool
    layers: Layers
    node_id: int
    are_fixed: bool

    def describe(self, wanted: WantedResource) -> DescribedResource:
        """Return the description of one resource, whose keys are created as they are written."""
        kind, name = wanted.kind, wanted.name
        error = self._error(kind, name) if self.may else NOT_AUTHORIZED
        if error is not None:
            return refuse_description(error, kind, name)
        names = self.layers.names() if name else {*self.layers.everywhere}
        if wanted.keys:
            names &= wanted.keys
        entry = partial(
            _entry,
            self.layers,
            is_default=not name,
            is_fixed=self.are_fixed,
            has_synonyms=self.asked.include_synonyms,
            has_documentation=self.asked.include_documentation,
        )
        return DescribedResource(
            resource_type=kind,
            resource_name=name,
            configs=LazyItems(entry, [each for each in sorted(names) if self.layers.look_up(each)]),
        )

    def _error(self, kind: int, name: str) -> ApiError | None:
        if kind != BROKER_CONFIGS:
            return ApiError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)
        number = broker_number(name)
        if name == EVERY_NODE or number == self.node_id:
            return None
        if number is None:
            return invalid_request(f"Broker id must be an integer, but it is: {name}")
        expected = f"expected {self.node_id} or empty string, but received {number}"
        return invalid_request(f"Unexpected broker id, {expected}")


def merge_repeated(resources: Sequence[ResourceToDescribe]) -> list[WantedResource]:
    """Return each resource once, with the keys of all requests for it.

    Names with the same number, such as `1` and `01`, name the same broker.
    """
    wanted: dict[tuple[int, str | int], WantedResource] = {}
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        node_id = broker_number(name) if kind == BROKER_CONFIGS else None
        named = {*resource.configuration_keys} if resource.configuration_keys else None
        known = wanted.get((kind, name if node_id is None else node_id))
        if known is None:
            wanted[kind, name if node_id is None else node_id] = WantedResource(kind, name, named)
        elif named and known.keys:
            known.keys |= named
        else:
            known.keys = None
    return [*wanted.values()]


def are_of_known_types(wanted: Sequence[WantedResource]) -> bool:
    """Return True if Kafka knows the type of each resource; otherwise it describes none of them."""
    return all(each.kind in _DESCRIBABLE for each in wanted)


def _entry(
    layers: Layers,
    name: str,
    *,
    is_default: bool,
    is_fixed: bool,
    has_synonyms: bool,
    has_documentation: bool,
) -> ConfigEntry:
    """Return the description of one key that has a value."""
    values = layers.look_up(name)
    if is_default:
        values = [each for each in values if each.source == ConfigSource.DYNAMIC_DEFAULT_BROKER]
    secret = is_secret(name)
    shown = [(None if secret else each.value, each.source) for each in values]
    synonyms = [ConfigSynonym(name, *each) for each in shown]
    general = kafka_ssl_name(name)
    if general is not None and name.startswith(LISTENER_PREFIX) and not is_default:
        synonyms += [
            ConfigSynonym(general, None if secret else each.value, each.source)
            for each in layers.look_up(general)
        ]
    value = shown[0][0]
    return ConfigEntry(
        name=name,
        value=value if value is None or is_default else normalize_value(name, value),
        read_only=is_fixed or not may_change(name, layers.plugged),
        config_source=shown[0][1],
        is_sensitive=secret,
        synonyms=synonyms if has_synonyms else [],
        config_type=get_type(name),
        documentation=_DOCS.get(name) if has_documentation else None,
    )


def refuse_description(error: ApiError, kind: int, name: str) -> DescribedResource:
    return DescribedResource(
        resource_type=kind,
        resource_name=name,
        error_code=error.code,
        error_message=shorten(error),
    )


def shorten(error: ApiError) -> str | None:
    """Return an error's text, cut to the maximum length of a Kafka string."""
    return None if error.message is None else error.message[:TEXT_CHARACTERS_MAX]


def broker_number(text: str) -> int | None:
    """Return the broker id in a resource's name, None if it is not a number."""
    if len(text) > _NUMBER_CHARACTERS_MAX:  # reading a long number takes quadratic time
        return None
    try:
        return int(text)
    except ValueError:
        return None


def invalid_request(text: str) -> ApiError:
    """Return INVALID_REQUEST with this text."""
    return ApiError(ErrorCode.INVALID_REQUEST, text)
