"""Plan the changes that turn one image into another, for a source that receives complete states.

**Invariant:** applying the changes to the first image gives exactly the second one. Removals of
topics come first, so a topic may be replaced by one with the same name and another id.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Final

from immutables import Map

from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    FeatureLevel,
    NodeUnregistered,
    PartitionAdded,
    TopicAdded,
    TopicRemoved,
    VotersChanged,
)
from authorizerd.image.cluster import TOPIC_CONFIGS, ClusterImage, Topic

ITEMS_PER_STEP: Final = 256

_NO_VALUES: Final[Map[str, str]] = Map()


def plan_image_differences(
    before: ClusterImage, after: ClusterImage
) -> Generator[None, None, list[ClusterChange]]:
    """Return, in steps, the changes from ``before`` to ``after``; none if they are equal."""
    changes: list[ClusterChange] = []
    compared = _compare(before, after)
    while chunk := list(islice(compared, ITEMS_PER_STEP)):
        changes += [change for change in chunk if change is not None]
        yield
    return changes


def _compare(before: ClusterImage, after: ClusterImage) -> Iterator[ClusterChange | None]:
    """Yield the changes in order, and None for each item without one."""
    removed = set[str]()
    for topic in before.topics.values():
        is_kept = _can_become(topic, after.topics.get(topic.name))
        if not is_kept:
            removed.add(topic.name)
        yield None if is_kept else TopicRemoved(topic.id)
    for topic in after.topics.values():
        old = None if topic.name in removed else before.topics.get(topic.name)
        yield from _compare_topic(old, topic)
    yield from _compare_configs(before, after, removed)
    for login in before.credentials:
        yield None if login in after.credentials else CredentialRemoved(*login)
    for login, credential in after.credentials.items():
        is_same = before.credentials.get(login) == credential
        yield None if is_same else CredentialAdded(*login, credential)
    for name in before.features:
        yield None if name in after.features else FeatureLevel(name, 0)
    for name, level in after.features.items():
        yield None if before.features.get(name) == level else FeatureLevel(name, level)
    yield from _compare_nodes(before, after)


def _can_become(old: Topic, new: Topic | None) -> bool:
    """Return True if records can turn ``old`` into ``new``: no record removes one partition."""
    return new is not None and old.id == new.id and all(n in new.partitions for n in old.partitions)


def _compare_topic(old: Topic | None, new: Topic) -> Iterator[ClusterChange | None]:
    yield TopicAdded(new.name, new.id) if old is None else None
    for number, partition in new.partitions.items():
        is_same = old is not None and old.partitions.get(number) == partition
        yield None if is_same else PartitionAdded(new.id, number, partition)


def _compare_configs(
    before: ClusterImage, after: ClusterImage, removed: Iterable[str]
) -> Iterator[ClusterChange | None]:
    """Compare the configs. Those of a removed topic were removed with it."""
    cleared = {(TOPIC_CONFIGS, name) for name in removed}
    for resource, values in before.configs.items():
        wanted = after.configs.get(resource, _NO_VALUES)
        if resource not in cleared:
            for key in values:
                yield None if key in wanted else ConfigChanged(*resource, key, None)
    for resource, values in after.configs.items():
        held = _NO_VALUES if resource in cleared else before.configs.get(resource, _NO_VALUES)
        for key, value in values.items():
            yield None if held.get(key) == value else ConfigChanged(*resource, key, value)


def _compare_nodes(before: ClusterImage, after: ClusterImage) -> Iterator[ClusterChange | None]:
    for key in before.nodes:
        yield None if key in after.nodes else NodeUnregistered(*key)
    for key, node in after.nodes.items():
        yield None if before.nodes.get(key) == node else node
    yield None if before.voters == after.voters else VotersChanged(after.voters)
