"""Orders and reports as bytes, and batches and snapshots as orders."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorizerd.acl.index.builder import SnapshotBuilder, build
from authorizerd.acl.model import Acl, AclAdded, AclRemoved, ChangeBatch
from authorizerd.acl.release_in_force import Evidence, judge_release
from authorizerd.acl.snapshot import EMPTY_SNAPSHOT, AclSnapshot, at_offset
from authorizerd.image.changes import (
    ClusterChange,
    FeatureLevel,
    NodeRegistered,
    NodeUnregistered,
    TopicAdded,
    TopicRemoved,
    VotersChanged,
)
from authorizerd.image.cluster import EMPTY_IMAGE, apply_cluster_changes
from authorizerd.protocol import worker_feed
from authorizerd.protocol.errors import DecodeError
from authorizerd.protocol.framing import frame
from authorizerd.protocol.worker_changes import (
    CATCH_UPS_MAX,
    CHANGES_PER_FRAME,
    OFFSETS_AT_ONCE,
    TEXTS_KEPT,
    SharedTexts,
    State,
    encode_changes,
    encode_state,
    to_batch,
)
from tests.support.acls import acl
from tests.support.log_files import added, removed
from tests.support.strategies import acls, cluster_changes, ids, texts

some_examples = settings(max_examples=40)
numbers = st.integers(0, 2**62)
text_maps = st.dictionaries(texts, texts, max_size=3)
changes = ids.map(AclRemoved) | st.builds(AclAdded, ids, acls(unknown_codes=True))
places = st.builds(
    worker_feed.WorkerAddress,
    texts,
    st.lists(
        st.tuples(st.sampled_from([2, 10]), texts, *[st.integers(0, 65535)] * 3), max_size=2
    ).map(tuple),
    st.lists(st.integers(0, 99), max_size=2).map(tuple),
)
orders: st.SearchStrategy[worker_feed.Order] = st.one_of(
    st.builds(
        worker_feed.Begin,
        numbers,
        text_maps,
        st.lists(places, max_size=2).map(tuple),
        st.binary(max_size=20),
        st.none() | st.integers(0, 99),
    ),
    st.builds(
        worker_feed.TakeFiles,
        numbers,
        st.builds(worker_feed.Files, st.none() | texts, st.binary(max_size=20)),
    ),
    st.builds(worker_feed.TakeSettings, numbers, text_maps),
    st.builds(worker_feed.Loaded, numbers, numbers),
    *(
        st.builds(kind, numbers)
        for kind in (worker_feed.Report, worker_feed.Listen, worker_feed.Drain)
    ),
)
reports = st.builds(
    worker_feed.Done,
    numbers,
    st.integers(-1, 2**62),
    st.none() | st.dictionaries(texts, st.integers(0, 2**62), max_size=3),
)


def orders_of(data: bytes, cut: int = 1 << 30) -> list[worker_feed.Order]:
    reader = worker_feed.order_reader()
    found: list[worker_feed.Order] = []
    for start in range(0, len(data), cut):
        reader.receive_data(data[start : start + cut])
        while (order := reader.next_message()) is not None:
            found.append(order)
    return found


@some_examples
@given(sent=st.lists(orders, max_size=4), cut=st.sampled_from([1, 7, 1000]))
def test_orders_read_back(sent: list[worker_feed.Order], cut: int) -> None:
    """However the bytes are split."""
    assert orders_of(b"".join(map(worker_feed.encode_message, sent)), cut) == sent


@some_examples
@given(sent=reports)
def test_reports_read_back(sent: worker_feed.Done) -> None:
    data = worker_feed.encode_message(sent)
    reader: worker_feed.FeedReader[worker_feed.Done] = worker_feed.report_reader()
    reader.receive_data(data[:-1])
    assert reader.next_message() is None
    reader.receive_data(data[-1:])
    assert reader.next_message() == sent


@some_examples
@given(
    made=st.lists(changes, max_size=6),
    others=st.lists(cluster_changes(), max_size=6),
    repeated=st.sampled_from([1, CHANGES_PER_FRAME, 50]),
    is_end=st.booleans(),
)
def test_batch_becomes_visible_with_its_last_part(
    made: list[AclAdded | AclRemoved], others: list[ClusterChange], repeated: int, is_end: bool
) -> None:
    """Of the cluster's changes, those of topics are passed on, in order."""
    batch = ChangeBatch(7, tuple(made) * repeated, is_end, tuple(others) * repeated)
    pieces: list[ChangeBatch] = []
    for order in orders_of(b"".join(encode_changes(3, batch))):
        assert isinstance(order, worker_feed.TakeChanges)
        assert (order.number, order.offset) == (3, 7)
        assert len(order.rows) <= CHANGES_PER_FRAME
        assert len(order.topics) <= CHANGES_PER_FRAME
        pieces.append(to_batch(order, SharedTexts()))
    assert tuple(change for piece in pieces for change in piece.changes) == batch.changes
    topics = [each for each in batch.cluster_changes if isinstance(each, TopicAdded | TopicRemoved)]
    assert [change for piece in pieces for change in piece.cluster_changes] == topics
    assert [piece.is_end for piece in pieces] == [False] * (len(pieces) - 1) + [is_end]


def state_of(numbers: range, offset: int) -> State:
    """Return the state with the ACL and the topic of each number."""
    snapshot = build(map(added, numbers), offset=offset)
    topics = [TopicAdded(f"t{n}", n.to_bytes(16)) for n in numbers]
    return snapshot, apply_cluster_changes(EMPTY_IMAGE, topics)


FAR = OFFSETS_AT_ONCE + 1


@pytest.mark.parametrize(
    ("states", "differences"),
    [([state_of(range(size), 9)], 1) for size in (1, CHANGES_PER_FRAME, 3 * CHANGES_PER_FRAME + 1)]
    + [
        ([(EMPTY_SNAPSHOT, EMPTY_IMAGE)], 1),
        ([state_of(range(200), 9), state_of(range(100, 350), 10)], 1),
        ([state_of(range(2), 9), state_of(range(1, 3), 9 + FAR)], 2),
        ([state_of(range(2), 9), state_of(range(0), 9 + FAR), state_of(range(4), 10 + FAR)], 2),
        ([state_of(range(n), n * FAR) for n in range(99)], CATCH_UPS_MAX + 1),
    ],
)
def test_newest_state_is_rebuilt_from_its_frames(states: list[State], differences: int) -> None:
    """Changes that come meanwhile are in it. It ends, even if they never stop."""
    left, last_ones = list(states), list[AclSnapshot]()

    def newest() -> State:
        return left.pop(0) if len(left) > 1 else left[0]

    *pieces, last = orders_of(b"".join(encode_state(2, newest, last_ones.append)))
    snapshot, image = states[min(differences, len(states) - 1)]
    assert last_ones == [snapshot]
    builder, topics = SnapshotBuilder(), EMPTY_IMAGE
    for order in pieces:
        assert isinstance(order, worker_feed.TakeChanges)
        assert not order.is_end
        batch = to_batch(order, SharedTexts())
        builder.apply_changes(batch.changes)
        topics = apply_cluster_changes(topics, batch.cluster_changes)
    assert topics == image
    assert last == worker_feed.Loaded(2, snapshot.offset)
    rebuilt: AclSnapshot = builder.freeze(snapshot.offset)
    assert (rebuilt.offset, rebuilt.acls) == (snapshot.offset, snapshot.acls)


def test_removal_has_only_an_id() -> None:
    [order] = orders_of(b"".join(encode_changes(1, ChangeBatch(5, (removed(4),)))))
    assert isinstance(order, worker_feed.TakeChanges)
    assert to_batch(order, SharedTexts()) == ChangeBatch(5, (removed(4),))


@pytest.mark.parametrize(
    "data",
    [b"", b"\x90", b"\x92\x63\x01", b"\x91\x04", b"\xc1", b"\x92\x04\xa1", b"\x93\x08\1\xa1\xff"],
)
def test_invalid_order_ends_the_feed(data: bytes) -> None:
    reader = worker_feed.order_reader()
    reader.receive_data(frame(data) + worker_feed.encode_message(worker_feed.Listen(1)))
    with pytest.raises(DecodeError, match="expected a message of the feed"):
        reader.next_message()
    assert reader.next_message() is None


def test_repr_shows_no_passwords() -> None:
    secret = {"listener.name.sasl.plain.sasl.jaas.config": "hidden"}
    assert "hidden" not in repr((worker_feed.Begin(1, secret), worker_feed.TakeSettings(2, secret)))


def test_equal_texts_of_different_acls_are_kept_once() -> None:
    """Otherwise a worker would take almost twice the memory."""
    svc = acl("User:svc", "READ", topic="orders")
    kept = SharedTexts()
    first, second, third = [decoded(added(number, svc), kept) for number in range(3)]
    assert first == second == third == svc
    assert first.principal is second.principal is third.principal
    assert first.resource_name is second.resource_name
    assert first.host is second.host
    assert decoded(added(4, svc), None).principal is not first.principal


def decoded(change: AclAdded, kept: SharedTexts | None) -> Acl:
    """Return the ACL as a worker gets it."""
    (order,) = orders_of(b"".join(encode_changes(1, ChangeBatch(5, (change,)))))
    assert isinstance(order, worker_feed.TakeChanges)
    (received,) = to_batch(order, kept).changes
    assert isinstance(received, AclAdded)
    return received.acl


def test_only_so_many_texts_are_kept() -> None:
    texts = SharedTexts()
    for number in range(2 * TEXTS_KEPT):
        texts.share(f"topic-{number}")
    assert 0 < len(texts) <= TEXTS_KEPT


PROOFS: list[ClusterChange] = [
    FeatureLevel("metadata.version", 30), NodeRegistered(False, 1, 30, b"record"),
    NodeRegistered(True, 9, -1), VotersChanged(frozenset((8, 9))), NodeUnregistered(False, 1),
    VotersChanged(None),
]  # fmt: skip


def test_worker_learns_what_proves_the_releases() -> None:
    """The records themselves stay with the daemon, as do other features."""
    other = FeatureLevel("group.version", 1)
    batch = ChangeBatch(7, (added(1),), cluster_changes=(*PROOFS, other))
    [order] = orders_of(b"".join(encode_changes(1, batch)))
    assert isinstance(order, worker_feed.TakeChanges)
    received = to_batch(order, SharedTexts())
    assert received.cluster_changes == (PROOFS[0], NodeRegistered(False, 1, 30), *PROOFS[2:])
    image = apply_cluster_changes(EMPTY_IMAGE, PROOFS[:4])
    state = at_offset(EMPTY_SNAPSHOT, 7), image
    received_image = EMPTY_IMAGE
    for each in orders_of(b"".join(encode_state(1, lambda: state, lambda _: None))):
        if isinstance(each, worker_feed.TakeChanges):
            changed = to_batch(each, SharedTexts()).cluster_changes
            received_image = apply_cluster_changes(received_image, changed)
    assert judge_release(received_image, Evidence.QUORUM) == judge_release(image, Evidence.QUORUM)
    assert received_image.voters == frozenset((8, 9))
