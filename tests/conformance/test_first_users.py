"""Users that are created when a log directory is formatted."""

from base64 import b64encode
from pathlib import Path

from confluent_kafka.admin import AdminClient

from authorizerd.image.changes import CredentialAdded
from authorizerd.metadata.replay import read_changes
from authorizerd.protocol.records.metadata import encode_value
from tests.kafka_rig.broker import CLUSTER_ID, BrokerSettings, format_storage, running_broker
from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import run, write_config

SALT = b64encode(bytes(range(20))).decode()
SALTED = b64encode(b"\x7f" * 64).decode()
PASSWORD = 'pass="word" [é'
USERS = (
    f"SCRAM-SHA-256=[name=alice,salt={SALT},password={PASSWORD}]",
    f'SCRAM-SHA-512=[name=alice,password="{PASSWORD}",salt="{SALT}",iterations=16384]',
    f"SCRAM-SHA-512=[saltedpassword={SALTED},name=zoé 日本,salt={SALT.rstrip('=')}]",
)
SCRAM = BrokerSettings(
    more={
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
)
TIMEOUT_SECONDS = 20.0


def formatted(folder: Path) -> Path:
    """Return a log directory that we formatted with the users."""
    log_dir = folder / "ours"
    words = [word for user in USERS for word in ("--add-scram", user)]
    config = write_config(folder, log_dir)
    done = run(
        *("format", "--config", config, "--cluster-id", CLUSTER_ID),
        *("--release-version", "4.3-IV0"),
        *words,
    )
    assert done.returncode == 0, done.stderr
    return log_dir


def test_kafka_storage_writes_the_same_records(rig: Rig, tmp_path: Path) -> None:
    """The bytes are equal and in the same order."""
    ours = [
        encode_value(change)
        for batch in read_changes(formatted(tmp_path))
        for change in batch.cluster_changes
        if isinstance(change, CredentialAdded)
    ]
    assert len(ours) == len(USERS)
    words = [word for user in USERS for word in ("--add-scram", user)]
    done = format_storage(rig, tmp_path / "theirs", tmp_path / "theirs" / "log", *words)
    assert done.exit_code == 0, done
    theirs = (tmp_path / "theirs" / "log" / "bootstrap.checkpoint").read_bytes()
    positions = [theirs.find(value) for value in ours]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_real_broker_accepts_our_user(rig: Rig, tmp_path: Path) -> None:
    """The user logs in with SCRAM-SHA-256, on the directory that we formatted."""
    with running_broker(rig, tmp_path / "broker", formatted(tmp_path), SCRAM) as broker:
        client = AdminClient(
            {
                "log_level": 0,
                "bootstrap.servers": broker.sasl_plaintext,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": PASSWORD,
            }
        )
        assert client.list_topics(timeout=TIMEOUT_SECONDS).cluster_id == CLUSTER_ID
