"""The page of the daemon's own user: what its right is worth, and how to create it.

The controller is a separate process. The page's lines are used as they are, but for addresses.
"""

from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import msgspec
import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from authorizerd.acl.filters import filter_of
from authorizerd.acl.steps import finish
from authorizerd.config.properties import parse_properties
from authorizerd.protocol.kafka.api import QuorumKey
from tests.end_to_end.documents import ROOT, Block, blocks_of, commands_of
from tests.end_to_end.example_daemon import Ports
from tests.end_to_end.page_shell import Names, Shell, check
from tests.kafka_rig import properties
from tests.kafka_rig.admin import Admin
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import FIRST_BROKER, FIRST_CONTROLLER, Cluster, running_cluster
from tests.kafka_rig.cluster_settings import FOLLOWER, GRANTS, POLLER, ClusterSettings
from tests.kafka_rig.member import Member
from tests.kafka_rig.rig import Rig
from tests.support.certificates import Authority, convert_key
from tests.support.kio_codec import encode_request

PAGE = ROOT / "docs" / "own-user.md"
TEST = "tests/conformance/test_own_user.py"
SECOND_BROKER = FIRST_BROKER + 1
CONSUMER = -1
OTHER_HOST = "127.0.0.9"
FETCH_VERSION = 13
SECONDS_MAX = 20.0
PASSWORD = "authorizerd-secret"
MECHANISMS = ("plain", "scram", "certificate")
FREE_PORTS = """\
listeners=PLAINTEXT://127.0.0.1:0
authorizerd.decision.http=http://127.0.0.1:0
authorizerd.decision.stream=
authorizerd.admin.http=http://127.0.0.1:0
"""


@pytest.fixture(scope="module")
def cluster(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a controller and two brokers."""
    settings = ClusterSettings(controllers=1, brokers=2)
    with running_cluster(rig, tmp_path_factory.mktemp("cluster"), settings) as cluster:
        yield cluster


def write_record(cluster: Cluster, topic: str, replicas: int) -> tuple[UUID, int]:
    """Write the topic's name as its only record; return the topic's id and leader."""
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": ADMIN,
        "sasl.password": cluster.settings.node.users[ADMIN],
    }
    admin = AdminClient(settings)
    new = NewTopic(topic, num_partitions=1, replication_factor=replicas)
    admin.create_topics([new])[topic].result(SECONDS_MAX)
    producer = Producer(settings)
    producer.produce(topic, topic.encode())
    assert producer.flush(SECONDS_MAX) == 0
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS_MAX)
    topic_id = UUID(bytes=urlsafe_b64decode(f"{described.topic_id}=="))
    return topic_id, described.partitions[0].leader.id


def fetch(admin: Admin, topic_id: UUID, replica_id: int) -> bytes:
    """Return the answer to a Fetch that claims to come from a replica, as bytes."""
    partition = SimpleNamespace(
        partition=0,
        current_leader_epoch=-1,
        fetch_offset=0,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    request = SimpleNamespace(
        cluster_id=None,
        replica_id=replica_id,
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(SimpleNamespace(topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(),
        rack_id="",
    )
    body = finish(encode_request(QuorumKey.FETCH, FETCH_VERSION, request))
    return bytes(admin.exchange(QuorumKey.FETCH, FETCH_VERSION, body))


def test_cluster_action_alone_reads_topics_with_several_replicas(cluster: Cluster) -> None:
    """DESCRIBE alone does not, and neither reads as a consumer."""
    brokers = (FIRST_BROKER, SECOND_BROKER)
    readers = set()
    for topic, replicas in (("only-replica", 1), ("two-replicas", 2)):
        topic_id, leader = write_record(cluster, topic, replicas)
        for user in (FOLLOWER, POLLER):
            for claimed, node_id in product((CONSUMER, *brokers), brokers):
                with cluster.admin(node_id, user) as admin:
                    answer = fetch(admin, topic_id, claimed)
                if topic.encode() in answer:
                    readers.add((topic, user, "leader" if claimed == leader else "other replica"))
    assert readers == {("two-replicas", FOLLOWER, "other replica")}


def test_right_for_one_host_ends_for_others_on_open_connections(cluster: Cluster) -> None:
    [right] = [each for each in GRANTS if each.principal == f"User:{FOLLOWER}"]
    topic_id, leader = write_record(cluster, "for-one-host", 2)
    [other] = {FIRST_BROKER, SECOND_BROKER} - {leader}
    here, there = (cluster.admin(leader, FOLLOWER, host) for host in (properties.HOST, OTHER_HOST))
    narrowed = msgspec.structs.replace(right, host=OTHER_HOST)

    def readers() -> list[bool]:
        return [b"for-one-host" in fetch(each, topic_id, other) for each in (here, there)]

    with here, there:
        assert readers() == [True, True]
        cluster.create(narrowed)
        assert cluster.delete(filter_of(right)) == [right]
        cluster.wait_for(lambda: readers() == [False, True], "the right is for one host")
        assert cluster.delete(filter_of(narrowed)) == [narrowed]
        cluster.wait_for(lambda: readers() == [False, False], "nobody has the right")
        cluster.create(right)
        cluster.wait_for(lambda: readers() == [True, True], "everybody has the right")


def test_describe_alone_lists_acls_quorum_and_partitions(cluster: Cluster) -> None:
    tools = "org.apache.kafka.tools"
    for words, said in (
        ((f"{tools}.AclCommand", "--list"), f"principal=User:{FOLLOWER}"),
        ((f"{tools}.MetadataQuorumCommand", "describe", "--status"), "HighWatermark:"),
        ((f"{tools}.LogDirsCommand", "--describe"), '"partition":"'),
    ):
        for user, is_allowed in ((POLLER, True), (FOLLOWER, False)):
            servers = ("--bootstrap-server", cluster.bootstrap_servers)
            login = ("--command-config", str(cluster.client_config(user)))
            done = cluster.rig.run_class(words[0], *servers, *login, *words[1:])
            assert (said in done.stdout) is is_allowed, done


class OwnListeners:
    """The listeners where the daemon logs in, of one node, by the page's names in lower case."""

    def __init__(self, member: Member, authority: Authority) -> None:
        self._member = member
        prefix = "OWN_" if member.is_controller else ""
        self._names = {each: f"{prefix}{each}".lower() for each in ("SASL_SSL", "SSL")}
        ports = properties.find_lasting_ports(len(self._names))
        for (protocol, name), port in zip(self._names.items(), ports, strict=True):
            member.listeners[name.upper()] = (protocol, port)
        keystore = convert_key(authority.issue(f"node-{member.node_id}", properties.HOST))
        for store, path in (("keystore", keystore), ("truststore", authority.ca_file)):
            member.more |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
        if member.is_controller:
            member.more["controller.listener.names"] = ",".join(("CONTROLLER", *member.listeners))

    def address(self, mechanism: str) -> str:
        protocol = "SSL" if mechanism == "certificate" else "SASL_SSL"
        return properties.local_address(self._member.listeners[self._names[protocol].upper()][1])

    def add(self, block: Block) -> None:
        """Add lines of the page to the node's file."""
        for key, line in parse_properties(block.text, source=block.place).items():
            for protocol, name in self._names.items():
                prefix = f"listener.name.{protocol.lower()}."
                if key.startswith(prefix):
                    own = f"listener.name.{name}.{key.removeprefix(prefix)}"
                    self._member.more[own] = line.value


def write_authority(folder: Path) -> Authority:
    """Return a CA whose key and certificate are in files, for OpenSSL."""
    authority = Authority(folder)
    key = load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    (folder / "ca.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return authority


class Walk:
    """A reader of the page, who has a cluster, a CA and an empty folder."""

    def __init__(self, cluster: Cluster, shell: Shell) -> None:
        self.shell = shell
        self.config = shell.folder / "server.properties"
        blocks = [each for each in blocks_of(PAGE) if each.test == TEST]
        self.files = {each.file: each for each in blocks if each.file is not None}
        self.consoles = [each for each in blocks if each.file is None]
        login = properties.client_properties(ADMIN, cluster.settings.node.users[ADMIN])
        properties.write_properties(shell.folder / "admin.properties", login)
        authority = write_authority(shell.folder)
        members = [cluster.members[each] for each in (FIRST_CONTROLLER, FIRST_BROKER)]
        self.controller, self.broker = (OwnListeners(each, authority) for each in members)
        for mechanism, node in product(MECHANISMS, (self.controller, self.broker)):
            node.add(self.files[f"kafka-{mechanism}.properties"])
        for member in members:
            cluster.stop(member.node_id)
            cluster.start(member.node_id)
        self._real = {
            "broker1.example.com:9092": cluster.bootstrap_servers,
            "192.0.2.7": properties.HOST,
            "/etc/authorizerd/": f"{shell.folder}/",
            "/var/lib/authorizerd/": f"{shell.folder}/",
        }

    def names(self, mechanism: str) -> Names:
        brokers = "broker1.example.com:9093,broker2.example.com:9093"
        controllers = "controller1.example.com:9094,controller2.example.com:9094"
        addresses = {
            brokers: self.broker.address(mechanism),
            controllers: self.controller.address(mechanism),
        }
        return Names(self._real | addresses, Ports())

    def run(self, block: Block) -> None:
        for command in commands_of(block.text):
            check(command, self.shell, self.names("plain"))

    def configure(self, source: str, mechanism: str) -> None:
        """Write the daemon's file, from two blocks of the page."""
        parts = (source, f"{source}-{mechanism}")
        text = "".join(self.files[f"{each}.properties"].text for each in parts)
        self.config.write_text(self.names(mechanism).to_real(text) + FREE_PORTS)
        self.config.chmod(0o600)

    def change_password(self, create: Block) -> None:
        """Change it in the cluster, where the old one is then refused, and back."""
        for password, code in (("second-secret", 2), (PASSWORD, 0)):
            self.run(replace(create, text=create.text.replace(PASSWORD, password)))
            printed, exit_code = self.shell.run(f"authorizerd doctor --config {self.config}")
            assert exit_code == code, printed


def test_own_user_is_created_as_on_the_page(cluster: Cluster, shell: Shell) -> None:
    """For each source and each mechanism, doctor is content and the daemon becomes ready."""
    walk = Walk(cluster, shell)
    create_scram, create_certificate, grant_brokers, grant_quorum, examine = walk.consoles
    walk.run(create_scram)
    walk.run(create_certificate)
    for source, grant in (("brokers", grant_brokers), ("quorum", grant_quorum)):
        walk.run(grant)
        for mechanism in MECHANISMS:
            walk.configure(source, mechanism)
            walk.run(examine)
            with Shell(shell.folder) as daemon:
                daemon.serve(f"authorizerd serve --config {walk.config}")
            if mechanism == "scram":
                walk.change_password(create_scram)
