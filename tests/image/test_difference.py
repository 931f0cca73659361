"""The changes that turn one image into another."""

from collections.abc import Generator, Iterable

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.image.changes import (
    ClusterChange,
    ConfigChanged,
    NodeRegistered,
    NodeUnregistered,
    TopicAdded,
    VotersChanged,
)
from authorizerd.image.cluster import EMPTY_IMAGE, ClusterImage, apply_cluster_changes
from authorizerd.image.difference import ITEMS_PER_STEP, plan_image_differences
from authorizerd.image.errors import ClusterChangeError
from tests.support.strategies import colliding_cluster_changes

ID = b"1" * 16
NODE_CHANGES: st.SearchStrategy[ClusterChange] = st.one_of(
    st.builds(NodeRegistered, st.booleans(), st.integers(0, 2), st.integers(30, 33)),
    st.builds(NodeUnregistered, st.booleans(), st.integers(0, 2)),
    st.builds(VotersChanged, st.none() | st.frozensets(st.integers(0, 2))),
)


def image_of(changes: Iterable[ClusterChange]) -> ClusterImage:
    image = EMPTY_IMAGE
    for change in changes:
        try:
            image = apply_cluster_changes(image, [change])
        except ClusterChangeError:
            continue
    return image


def finish(steps: Generator[None, None, list[ClusterChange]]) -> tuple[list[ClusterChange], int]:
    """Return the changes, and the number of steps."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def images() -> st.SearchStrategy[ClusterImage]:
    return st.lists(colliding_cluster_changes() | NODE_CHANGES, max_size=30).map(image_of)


@given(images(), images())
def test_the_differences_turn_one_image_into_the_other(
    before: ClusterImage, after: ClusterImage
) -> None:
    """Whatever the images have in common; partitions, configs and ids may contradict each other."""
    changes, _ = finish(plan_image_differences(before, after))
    assert apply_cluster_changes(before, changes) == after


@given(images())
def test_equal_images_have_no_differences(image: ClusterImage) -> None:
    assert finish(plan_image_differences(image, image))[0] == []


def test_configs_of_a_replaced_topic_are_set_again() -> None:
    """Removing a topic removes its configs, also those that both images have."""
    config = ConfigChanged(2, "a", "retention.ms", "1")
    before = image_of([TopicAdded("a", ID), config])
    after = image_of([TopicAdded("a", b"2" * 16), config])
    changes, _ = finish(plan_image_differences(before, after))
    assert config in changes
    assert apply_cluster_changes(before, changes) == after


def test_large_images_are_compared_in_steps() -> None:
    changes = [ConfigChanged(4, str(n), "key", "value") for n in range(10 * ITEMS_PER_STEP)]
    found, steps = finish(plan_image_differences(EMPTY_IMAGE, image_of(changes)))
    assert len(found) == len(changes)
    assert steps >= 10
