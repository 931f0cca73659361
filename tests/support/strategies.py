"""Hypothesis strategies: ACLs that collide, metadata records, and valid logs."""

from hypothesis import strategies as st

from authorizerd.acl.model import (
    Acl,
    AclAdded,
    AclFilter,
    AclRemoved,
    Change,
    ChangeBatch,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from authorizerd.image.changes import (
    LEADER_UNCHANGED,
    RECOVERY_STATE_UNCHANGED,
    ClusterChange,
    ConfigChanged,
    CredentialAdded,
    CredentialRemoved,
    FeatureLevel,
    Partition,
    PartitionAdded,
    PartitionChanged,
    ScramCredential,
    TopicAdded,
    TopicRemoved,
)
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)

PRINCIPALS = ("User:a", "User:b", "Group:a", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1")
ODD_CODES = (-128, -1, 0, 1, 16, 127)
"""Codes that are invalid in an ACL: UNKNOWN, ANY, future codes, and the limits of an int8."""

resource_names = st.text("ab-._*!", max_size=3)
ids = st.binary(min_size=16, max_size=16)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int8s = st.integers(-128, 127)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
replicas = st.lists(st.integers(1, 3) | int32s, max_size=4).map(tuple)
acl_filters = st.builds(
    AclFilter,
    resource_type=int8s,
    resource_name=st.none() | texts,
    pattern_type=int8s,
    principal=st.none() | texts,
    host=st.none() | texts,
    operation=int8s,
    permission_type=int8s,
)
any_text = st.one_of(texts, resource_names, st.integers(100, 300).map("é".__mul__))
"""Strings. Some are longer than 126 bytes, so their size takes more than one byte."""

any_acls = st.builds(Acl, int8s, any_text, int8s, any_text, any_text, int8s, int8s)
"""ACLs with any codes and texts, short and long."""


def _codes(usual: tuple[int, ...], unknown_codes: bool) -> st.SearchStrategy[int]:
    return st.sampled_from((*usual, *ODD_CODES) if unknown_codes else usual)


def acls(*, unknown_codes: bool = False) -> st.SearchStrategy[Acl]:
    """Return ACLs that collide, by ``unknown_codes`` with codes of other Kafka versions."""
    return st.builds(
        Acl,
        resource_type=_codes(
            (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER), unknown_codes
        ),
        resource_name=resource_names,
        pattern_type=_codes((PatternType.LITERAL, PatternType.PREFIXED), unknown_codes),
        principal=st.sampled_from(PRINCIPALS),
        host=st.sampled_from(HOSTS),
        operation=_codes(
            (
                Operation.ALL,
                Operation.READ,
                Operation.WRITE,
                Operation.DESCRIBE,
                Operation.ALTER_CONFIGS,
                Operation.DESCRIBE_CONFIGS,
                Operation.TWO_PHASE_COMMIT,
            ),
            unknown_codes,
        ),
        permission_type=_codes((PermissionType.ALLOW, PermissionType.DENY), unknown_codes),
    )


def crowd() -> list[Acl]:
    """Return ACLs that make the tables of the index large, and match few names of ``acls``.

    Each principal of ``PRINCIPALS`` has them, and other principals, hosts and prefixes.
    """
    topic, read, literal = ResourceType.TOPIC, Operation.READ, PatternType.LITERAL
    names = [f"{letter}{number}" for letter in "ab" for number in range(20)]
    crowded = [
        Acl(topic, name[size:], pattern_type, principal, "*", read, PermissionType.ALLOW)
        for principal in PRINCIPALS
        for pattern_type in (literal, PatternType.PREFIXED)
        for size, name in enumerate(f"aa{name}" for name in names)
        for size in (size % 3,)
    ]
    crowded += [
        Acl(topic, "c", literal, principal, host, read, PermissionType.DENY)
        for number in range(40)
        for principal, host in ((f"User:c{number}", "*"), ("User:a", f"10.1.0.{number}"))
    ]
    return list(dict.fromkeys(crowded))


@st.composite
def logs(draw: st.DrawFn, *, unknown_codes: bool = False) -> list[ChangeBatch]:
    """Return valid batches in log order: no id and no present binding is repeated.

    A batch may be empty, and offsets may skip other records.
    """
    offset, next_id = -1, 0
    live: dict[Acl, bytes] = {}
    batches: list[ChangeBatch] = []
    for size in draw(st.lists(st.integers(0, 4), max_size=6)):
        changes: list[Change] = []
        for _ in range(size):
            if live != {} and draw(st.booleans()):
                changes.append(AclRemoved(live.pop(draw(st.sampled_from(list(live))))))
                continue
            acl = draw(acls(unknown_codes=unknown_codes))
            if acl in live:
                changes.append(AclRemoved(live.pop(acl)))
                continue
            live[acl] = next_id.to_bytes(16, "big")
            changes.append(AclAdded(live[acl], acl))
            next_id += 1
        offset += len(changes) + draw(st.integers(0 if changes else 1, 2))
        batches.append(ChangeBatch(offset, tuple(changes)))
    return batches


def metadata_records() -> st.SearchStrategy[MetadataRecord]:
    """Return records with any codes and texts that fit their fields, in any order."""
    optional_text = st.none() | any_text
    return st.one_of(
        st.builds(AclAdded, ids, st.one_of(acls(unknown_codes=True), any_acls)),
        st.builds(AclRemoved, ids),
        cluster_changes(),
        st.builds(BeginTransaction, optional_text),
        st.just(EndTransaction()),
        st.builds(AbortTransaction, optional_text),
    )


def partitions() -> st.SearchStrategy[Partition]:
    """Return partitions of each record version; the first has no directories."""
    return st.integers(0, 2).flatmap(
        lambda version: st.builds(
            Partition,
            replicas=replicas,
            isr=replicas,
            leader=int32s,
            leader_epoch=st.integers(0, 9),
            partition_epoch=st.integers(0, 9),
            removing_replicas=replicas,
            adding_replicas=replicas,
            leader_recovery_state=st.sampled_from((0, 1)),
            directories=st.lists(ids, max_size=2 if version else 0).map(b"".join),
            eligible_leader_replicas=replicas,
            last_known_eligible=replicas,
            version=st.just(version),
        )
    )


def partition_changes(
    topic_ids: st.SearchStrategy[bytes], numbers: st.SearchStrategy[int]
) -> st.SearchStrategy[PartitionChanged]:
    return st.integers(0, 2).flatmap(
        lambda version: st.builds(
            PartitionChanged,
            topic_id=topic_ids,
            number=numbers,
            isr=st.none() | replicas,
            leader=st.just(LEADER_UNCHANGED) | st.integers(-1, 3),
            replicas=st.none() | replicas,
            removing_replicas=st.none() | replicas,
            adding_replicas=st.none() | replicas,
            leader_recovery_state=st.sampled_from((RECOVERY_STATE_UNCHANGED, 0, 1)),
            eligible_leader_replicas=st.none() | replicas,
            last_known_eligible=st.none() | replicas,
            directories=st.none() | st.lists(ids, max_size=2).map(b"".join)
            if version
            else st.none(),
            version=st.just(version),
        )
    )


def cluster_changes(
    *,
    names: st.SearchStrategy[str] = any_text,
    topic_ids: st.SearchStrategy[bytes] = ids,
    numbers: st.SearchStrategy[int] = int32s,
    codes: st.SearchStrategy[int] = int8s,
    levels: st.SearchStrategy[int] = int16s,
) -> st.SearchStrategy[ClusterChange]:
    """Return changes of any kind over these names and numbers, consistent or not."""
    keys = st.binary(max_size=8)
    credentials = st.builds(ScramCredential, keys, keys, keys, st.integers(1, 2**31 - 1))
    return st.one_of(
        st.builds(TopicAdded, names, topic_ids),
        st.builds(TopicRemoved, topic_ids),
        st.builds(PartitionAdded, topic_ids, numbers, partitions()),
        partition_changes(topic_ids, numbers),
        st.builds(ConfigChanged, codes, names, names, st.none() | names),
        st.builds(CredentialAdded, names, codes, credentials),
        st.builds(CredentialRemoved, names, codes),
        st.builds(FeatureLevel, names, levels),
    )


def colliding_cluster_changes() -> st.SearchStrategy[ClusterChange]:
    """Return changes over few names, ids and numbers, so that they collide."""
    return cluster_changes(
        names=st.sampled_from(("a", "b")),
        topic_ids=st.sampled_from((b"1" * 16, b"2" * 16)),
        numbers=st.integers(0, 2),
        codes=st.integers(1, 2),
        levels=st.integers(0, 2),
    )
