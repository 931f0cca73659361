"""The tree of a log: every kind of record, and no secret."""

import json
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.cli.shell.commands import Shell
from authorizerd.cli.shell.java_text import is_shown
from authorizerd.cli.shell.log_tree import describe_unread, log_tree, read_contents
from authorizerd.image import changes
from authorizerd.metadata.errors import CorruptLogError
from authorizerd.protocol.primitives import compact_string
from authorizerd.protocol.records.foreign import ForeignType
from authorizerd.protocol.records.metadata import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    MetadataRecord,
)
from tests.metadata.sound_logs import SEGMENTS
from tests.support.acls import acl
from tests.support.foreign_records import (
    ONE_ID,
    TWO_IDS,
    broker,
    changed,
    controller,
    frame,
    int32,
    int64,
    quota,
    token,
)
from tests.support.log_files import (
    added,
    data_batch,
    removed,
    write_checkpoint,
    write_log,
    write_segment,
)

SALT, STORED_KEY, SERVER_KEY = b"the salt", b"the stored key", b"the server key"
CREDENTIAL = changes.ScramCredential(SALT, STORED_KEY, SERVER_KEY, 4096)
PASSWORD = "the-password"
TOPIC_ID = bytes(range(16))
Record = MetadataRecord | bytes


def look(folder: Path, command: str, *batches: list[Record]) -> str:
    """Return what a command prints about a log with these batches."""
    write_log(folder, *batches)
    printed: list[str] = []
    Shell(log_tree(read_contents(folder)), printed.append, is_interactive=True).run(command.split())
    return "".join(printed)


LISTENERS = (
    "[Endpoint(listenerName='B', securityProtocol=SASL_SSL, host='h', port=65535), "
    "Endpoint(listenerName='C', securityProtocol=SSL, host='h', port=1), "
    "Endpoint(listenerName='PLAIN', securityProtocol=PLAINTEXT, host='h', port=9092)]"
)
BEGIN, END, ABORT = BeginTransaction(), EndTransaction(), AbortTransaction()
QUOTA = quota("producer_byte_rate", 1, user="a")
UNREGISTERED = frame(ForeignType.UNREGISTER_CONTROLLER, int32(7))


def described(
    *, fenced: str = "true", shutdown: str = "false", migrating: str = "true",
    directories: str = "[]", cordoned: str = "[]",
) -> str:  # fmt: skip
    return (
        f"BrokerRegistration(id=1, epoch=5, incarnationId=AAAAAAAAAAAAAAAAAAAAAA, "
        f"listeners={LISTENERS}, supportedFeatures={{e: 0-2, f: 1, g: 3+}}, rack=Optional[r1], "
        f"fenced={fenced}, inControlledShutdown={shutdown}, isMigratingZkBroker={migrating}, "
        f"directories={directories}, cordonedDirectories={cordoned})\n"
    )


@pytest.mark.parametrize(("batches", "command", "printed"), [
    ([[broker()]], "cat /image/cluster/brokers/1", described()),
    ([[broker(0)]], "cat /image/cluster/brokers/1", described(migrating="false")),
    (
        # Kafka sorts ids as signed numbers.
        [[broker(tags=b"\2\0\x21" + TWO_IDS + b"\1\x11" + ONE_ID)]],
        "cat /image/cluster/brokers/1",
        described(
            directories="[gAAAAAAAAAAAAAAAAAAAAA, AAAAAAAAAAAAAAAAAAAAAA]",
            cordoned="[AAECAwQFBgcICQoLDA0ODw]",
        ),
    ),
    ([[broker()], [changed(tags=b"\3\0\1\xff\1\1\1\3\x11" + ONE_ID)]],
     "cat /image/cluster/brokers/1",
     described(fenced="false", shutdown="true", cordoned="[AAECAwQFBgcICQoLDA0ODw]")),
    ([[broker()], [frame(ForeignType.UNFENCE_BROKER, int32(1), int64(5))]],
     "cat /image/cluster/brokers/1", described(fenced="false")),
    ([[broker()], [frame(ForeignType.UNREGISTER_BROKER, int32(1), int64(5))]],
     "ls /image/cluster/brokers", ""),
    ([[controller()]], "cat /image/cluster/controllers/7",
     "ControllerRegistration(id=7, incarnationId=AAECAwQFBgcICQoLDA0ODw, "
     "zkMigrationReady=false, listeners=[Endpoint(listenerName='C', "
     "securityProtocol=SASL_PLAINTEXT, host='h', port=9093)], " "supportedFeatures={f: 0-1})\n"),
    # A controller that is not registered may be unregistered, as in Kafka's image.
    ([[controller(), UNREGISTERED, UNREGISTERED]], "ls /image/cluster/controllers", ""),
    ([[quota("consumer_byte_rate", 1e7, user="a(", client_id="c"), QUOTA],
      [quota("request_percentage", 2.5, user=None)]], "tree /image/clientQuotas",
     "clientId(c)_user(a\\():\n  consumer_byte_rate:\n    1.0E7\n"
     "user(<default>):\n  request_percentage:\n    2.5\n"
     "user(a):\n  producer_byte_rate:\n    1.0\n"),
    ([[QUOTA], [quota("producer_byte_rate", 0, is_removed=True, user="a")]],
     "ls /image/clientQuotas", ""),
    ([[frame(ForeignType.PRODUCER_IDS, int32(1), int64(5), int64(1000))]],
     "cat /image/producerIds/*", "1000\n"),
    ([[token("t"), token("u")], [frame(26, compact_string("u"))]], "tree /image/delegationToken",
     "t:\n  DelegationTokenDatatokenId=t(owner=User:o(tokenRequester=User:q("
     "renewers=User:r User:s, issueTimestamp=1, maxTimestamp=2), expiryTimestamp=3\n"),
    ([[changes.CredentialAdded("u", 1, CREDENTIAL)]], "tree /image/scram",
     "SCRAM-SHA-256:\n  u:\n    ScramCredentialData(salt=[redacted], "
     "storedKey=[redacted], serverKey=[redacted], iterations=4096)\nSCRAM-SHA-512:\n"),
    ([[changes.ConfigChanged(4, "", "ssl.key.password", PASSWORD)]],
     "cat /image/configs/BROKER/ssl.key.password", "[redacted]\n"),
    ([[changes.FeatureLevel("f.version", 3)]], "tree /image/features",
     "finalized_f.version:\n  3\nmetadataVersion:\n  Optional[4.3-IV0]\n"),
    # Records of a transaction become visible together, or never.
    ([[BEGIN, QUOTA]], "ls /image/clientQuotas", ""),
    ([[BEGIN, QUOTA], [END]], "ls /image/clientQuotas", "user(a)\n"),
    ([[BEGIN], [QUOTA, ABORT]], "ls /image/clientQuotas", ""),
    ([[BEGIN, added(1)]], "ls /image/acls/byId", ""),
    ([[BEGIN, added(1)], [END]], "ls /image/acls/byId", "AAAAAAAAAAAAAAAAAAAAAQ\n"),
    ([[added(1), added(2)], [removed(1)]], "ls /acl/id", "AAAAAAAAAAAAAAAAAAAAAg\n"),
])  # fmt: skip
def test_record_is_shown_as_in_kafkas_shell(
    tmp_path: Path, batches: list[list[Record]], command: str, printed: str
) -> None:
    assert look(tmp_path, command, *batches) == printed


@pytest.mark.parametrize(("topic", "left"), [("", "elr=[]"), ("t", "elr=[]"), ("other", "elr=[1]")])
def test_eligible_leaders_are_cleared(tmp_path: Path, topic: str, left: str) -> None:
    partition = changes.Partition(
        replicas=(1,), isr=(), leader=-1, leader_epoch=0, partition_epoch=0,
        eligible_leader_replicas=(1,), version=2,
    )  # fmt: skip
    records: list[Record] = [
        changes.TopicAdded("t", TOPIC_ID),
        changes.PartitionAdded(TOPIC_ID, 0, partition),
    ]
    records.append(changes.TopicAdded("other", bytes(16)))
    cleared = frame(ForeignType.CLEAR_ELR, compact_string(topic))
    printed = look(tmp_path, "cat /image/topics/byName/t/0", records, [cleared])
    assert f" {left}, " in printed
    assert "directories=[AAAAAAAAAAAAAAAAAAAAAA]" in printed


def test_no_secret_is_printed(tmp_path: Path) -> None:
    """Everything that a log can contain is printed: no salt, no key and no password is in it."""
    configs = [
        changes.ConfigChanged(kind, "", key, PASSWORD)
        for kind in (0, 2, 4, 8, 16, 32)
        for key in ("ssl.keystore.key", "listener.name.a.plain.sasl.jaas.config", "my.secret")
    ]
    unknown = [changes.ConfigChanged(kind, "1", "plugin.setting", PASSWORD) for kind in (0, 4, 8)]
    credentials = [changes.CredentialAdded("u", mechanism, CREDENTIAL) for mechanism in (1, 2)]
    records: list[Record] = [*configs, *unknown, *credentials, token("t"), added(1), broker()]
    printed = look(tmp_path, "tree /", records)
    assert printed.count("[redacted]") == len(configs) + len(unknown) + 3 * len(credentials)
    for secret in (SALT, STORED_KEY, SERVER_KEY):
        assert secret.decode() not in printed
        assert secret.hex() not in printed
    assert PASSWORD not in printed


@pytest.mark.parametrize(("key", "of_broker", "of_topic"), [
    ("min.insync.replicas", True, True),
    ("listener.name.sasl_ssl.ssl.keystore.location", True, True),
    ("log.retention.ms", True, True),
    ("ssl.truststore.password", False, False),
    ("listener.name.a.ssl.keystore.key", False, False),
    ("listener.name.a.scram-sha-256.sasl.jaas.config", False, False),
    ("rsm.config.s3.access.key", False, False),
    ("my.plugin.setting", False, True),
    ("log.PASSWORD", False, False),
])  # fmt: skip
def test_config_is_shown_only_if_it_is_certainly_no_secret(
    key: str, *, of_broker: bool, of_topic: bool
) -> None:
    assert is_shown(key, is_broker=True) == of_broker
    assert is_shown(key, is_broker=False) == of_topic


@pytest.mark.parametrize("record", [
    Acl(2, 'a"\\\u202e\x07\U000e0001', 4, "User:ä", "*", 11, 3),
    acl("User:a", "READ", topic="t"),
])  # fmt: skip
def test_acl_is_json_that_says_all_of_it(tmp_path: Path, record: Acl) -> None:
    write_log(tmp_path, [added(1, record)])
    printed: list[str] = []
    shell = Shell(log_tree(read_contents(tmp_path)), printed.append, is_interactive=False)
    assert shell.run(["cat", "/acl/id/AAAAAAAAAAAAAAAAAAAAAQ"]) == 0
    text = "".join(printed)
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {
        "id": "AAAAAAAAAAAAAAAAAAAAAQ", "resourceType": record.resource_type,
        "resourceName": record.resource_name, "patternType": record.pattern_type,
        "principal": record.principal, "host": record.host, "operation": record.operation,
        "permissionType": record.permission_type,
    }  # fmt: skip


@pytest.mark.parametrize(("record", "name"), [
    (broker(version=5), "REGISTER_BROKER"),
    (broker(tags=b"\1\7\1\0"), "REGISTER_BROKER"),
    (frame(99, b"anything"), "type 99"),
])  # fmt: skip
def test_record_that_cannot_be_read_is_reported(tmp_path: Path, record: bytes, name: str) -> None:
    write_log(tmp_path, [record, controller()])
    contents = read_contents(tmp_path)
    assert describe_unread(contents.unread).endswith(f"are not shown: {name}")
    assert list(contents.controllers) == [7]


@pytest.mark.parametrize(("records", "reason"), [
    ([changed()], "broker 1 is not registered in epoch 5"),
    ([broker(), changed(epoch=6)], "broker 1 is not registered in epoch 6"),
    ([removed(1)], "no ACL has the removed id"),
    ([frame(ForeignType.REMOVE_DELEGATION_TOKEN, b"\x09a")], "id: 8 bytes announced"),
])  # fmt: skip
def test_unfitting_record_is_an_error(tmp_path: Path, records: list[Record], reason: str) -> None:
    write_log(tmp_path, records)
    with pytest.raises(CorruptLogError, match=reason):
        read_contents(tmp_path)


def test_offsets_of_a_checkpoint_are_those_of_the_file(tmp_path: Path) -> None:
    """As in Kafka's shell: the file says nothing else about the offset of its records."""
    path = write_checkpoint(tmp_path, 100, [added(1), added(2)])
    assert read_contents(path).provenance.offset == 2
    assert read_contents(tmp_path).provenance.offset == 99


@pytest.mark.parametrize("time_ms", [2**62, -(2**62)])
def test_time_that_no_calendar_has_is_a_number(tmp_path: Path, time_ms: int) -> None:
    odd = data_batch(2, [added(1)], time_ms=time_ms)
    write_segment(tmp_path, 0, *SEGMENTS[0][:2], odd)
    printed: list[str] = []
    Shell(log_tree(read_contents(tmp_path)), printed.append, is_interactive=False).run(
        ["cat", "/image/provenance"]
    )
    assert f"time {time_ms} ms since 1970" in "".join(printed)
