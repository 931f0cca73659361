"""ACLs in a real ZooKeeper, beside a real Kafka 3.9 broker with AclAuthorizer that uses it.

The broker logs in with SASL and owns its znodes (zookeeper.set.acl=true).
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from authorizerd.acl.model import Acl, AclFilter
from authorizerd.cli.main import main
from authorizerd.cli.zookeeper.errors import SessionLostError, ZooKeeperError
from authorizerd.cli.zookeeper.options import OPEN, Permission, WriteOptions
from authorizerd.cli.zookeeper.reading import read_all
from authorizerd.cli.zookeeper.session import (
    Check,
    Create,
    Outcome,
    Session,
    SetData,
    open_session,
)
from authorizerd.cli.zookeeper.settings import (
    Login,
    ZooKeeperSettings,
    parse_address,
    read_settings,
)
from authorizerd.cli.zookeeper.writing import AclWriter, Added
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.listing import read_listing
from authorizerd.management.zookeeper.export import Target, list_parents
from authorizerd.management.zookeeper.ownership import MIGRATION
from authorizerd.management.zookeeper.paths import Pattern, pattern_path
from authorizerd.tls.context import new_client_context
from authorizerd.tls.material import read_material
from tests.kafka_rig.rig import DIRECTORY, SOURCES, Absent, Program, Rig, RigError, prepare
from tests.kafka_rig.zookeeper.broker import ZooKeeperBroker, running_zookeeper_broker
from tests.kafka_rig.zookeeper.ensemble import LOGIN_MODULE, ZooKeeper, running_zookeeper
from tests.support.acls import acl
from tests.support.certificates import Authority, convert_key
from tests.support.daemon_process import wait_until
from tests.support.zookeeper_clusters import new_largest_pattern

ROOT = Path(__file__).parents[2]
CHROOT = "/clusters/secure"
USERS = {"kafka": "kafka-secret", "other": "other-secret"}
KAFKA, OTHER = (Login(user, USERS[user]) for user in ("kafka", "other"))
VISIBLE_SECONDS_MAX = 30.0
CLOSED = (Permission(1, "world", "anyone"),)
EVERY_KIND = [
    acl("User:ä", "READ", topic="orders"),
    acl("User:a", "READ", topic="orders", deny=True, host="10.0.0.7"),
    acl("User:a", "ALL", topic="*"),
    acl("User:CN=a, O=b", "WRITE", topic="or", pattern="PREFIXED", deny=True),
    acl("Group:g", "DESCRIBE", group="a:b c"),
    acl("User:a", "IDEMPOTENT_WRITE", cluster=True),
    acl("User:a", "WRITE", transactional_id="tx-", pattern="PREFIXED"),
    acl("User:a", "DESCRIBE", transactional_id="tx"),
    acl("User:a", "DESCRIBE", delegation_token="token"),
    acl("User:a", "CREATE_TOKENS", user="User:b"),
]


@pytest.fixture(scope="module")
def old_rig() -> Rig:
    prepared = prepare(ROOT / DIRECTORY, SOURCES / "zookeeper")
    if isinstance(prepared, Absent):
        pytest.skip(f"no Kafka with ZooKeeper: {prepared.reason}")
    return prepared


@pytest.fixture(scope="module")
def zookeeper(
    old_rig: Rig, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeper]:
    keystore = convert_key(authority.issue("server", "127.0.0.1"))
    with running_zookeeper(
        old_rig,
        tmp_path_factory.mktemp("zookeeper"),
        USERS,
        keystore=keystore,
        truststore=authority.ca_file,
    ) as server:
        yield server


@pytest.fixture(scope="module")
def broker(
    old_rig: Rig, zookeeper: ZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperBroker]:
    directory = tmp_path_factory.mktemp("broker")
    with running_zookeeper_broker(old_rig, directory, zookeeper, CHROOT, user="kafka") as running:
        yield running


@contextmanager
def session_of(
    zookeeper: ZooKeeper, chroot: str = CHROOT, *, sasl: Login | None = KAFKA
) -> Iterator[Session]:
    settings = ZooKeeperSettings(connection_timeout_ms=20_000, sasl=sasl)
    with open_session(parse_address(zookeeper.address + chroot), settings, None) as session:
        yield session


def read(zookeeper: ZooKeeper, sasl: Login | None = KAFKA) -> set[Acl]:
    with session_of(zookeeper, sasl=sasl) as session:
        acls = read_all(session)
    assert len(acls) == len(set(acls))
    return set(acls)


def add(zookeeper: ZooKeeper, acls: Iterable[Acl]) -> Added:
    with session_of(zookeeper) as session:
        writer = AclWriter(session, WriteOptions())
        missing = writer.find_missing(acls)
        assert missing.losses == ()
        return writer.add_all(missing.new)


def list_acls(broker: ZooKeeperBroker) -> set[Acl]:
    with broker.admin() as admin:
        return set(admin.describe())


def await_listed(broker: ZooKeeperBroker, acls: set[Acl]) -> None:
    wait_until(lambda: list_acls(broker) == acls, f"{acls} are listed", VISIBLE_SECONDS_MAX)


@pytest.fixture(autouse=True)
def empty(broker: ZooKeeperBroker, zookeeper: ZooKeeper) -> None:
    """Begin each test without ACLs. A broker removes only what it has heard of."""
    give_up = time.monotonic() + VISIBLE_SECONDS_MAX
    while (left := read(zookeeper)) and time.monotonic() < give_up:
        with broker.admin() as admin:
            admin.delete([AclFilter()])
    assert left == set()
    await_listed(broker, set())


def test_acls_that_the_broker_stores_are_read(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper
) -> None:
    with broker.admin() as admin:
        admin.create(EVERY_KIND)
    assert read(zookeeper) == set(EVERY_KIND)
    # With zookeeper.set.acl=true, everybody may read ACLs.
    assert read(zookeeper, sasl=None) == set(EVERY_KIND)


def test_acls_that_are_added_are_listed_by_the_running_broker(
    rig: Rig, broker: ZooKeeperBroker, zookeeper: ZooKeeper
) -> None:
    present = [acl("User:here", "WRITE", topic="orders"), acl("User:here", topic="else")]
    with broker.admin() as admin:
        admin.create(present)
    assert add(zookeeper, EVERY_KIND).count == len(EVERY_KIND)
    expected = {*present, *EVERY_KIND}
    await_listed(broker, expected)
    assert read(zookeeper) == expected
    assert add(zookeeper, EVERY_KIND) == Added(count=0, patterns=0)
    listed = rig.run(
        Program.ACLS, "--bootstrap-server", broker.address, "--command-config",
        broker.client_config(), "--list",
    )  # fmt: skip
    assert set(read_listing(listed.stdout)) == expected
    with broker.admin() as admin:
        assert set(admin.delete([AclFilter()])) == expected


def test_new_znodes_are_as_those_of_the_broker(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper
) -> None:
    of_broker, ours = acl(topic="of-broker"), acl(topic="ours")
    with broker.admin() as admin:
        admin.create([of_broker])
    add(zookeeper, [ours])
    paths = [pattern_path(Pattern.of(each)) for each in (of_broker, ours)]
    with session_of(zookeeper) as session:
        expected, found = map(session.get_permissions, paths)
        assert found == expected
        assert found is not None
        assert set(found) == {Permission(31, "sasl", "kafka"), Permission(1, "world", "anyone")}
        first, second = (each and each.data for each in session.get_many(paths))
        assert first == second, (first, second)
        events = session.list_children("/kafka-acl-changes") or []
        data = [each and each.data for each in session.get_many(
            f"/kafka-acl-changes/{event}" for event in events[-2:]
        )]  # fmt: skip
        assert data == [b"TOPIC:of-broker", b"TOPIC:ours"]
        assert session.list_children("/kafka-acl-extended/prefixed") is not None
        missing = [each for each in list_parents(Target().oldest)
                   if session.list_children(each) is None]  # fmt: skip
        assert missing == [], "brokers create the parents that an export creates"


def test_1751_acls_of_a_broker_are_added_and_read_back(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper, real_log_dir: Path
) -> None:
    acls = set(read_listing((real_log_dir / "acls-list.txt").read_text(encoding="utf-8")))
    assert len(acls) == 1751
    assert add(zookeeper, sorted(acls, key=str)).count == 1751
    assert read(zookeeper) == acls
    await_listed(broker, acls)


def test_broker_and_export_never_overwrite_each_other(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper
) -> None:
    theirs = [acl(f"User:{number}", topic="shared") for number in range(40)]
    ours = [acl(f"User:{number}", "WRITE", topic="shared") for number in range(40)]
    refused: list[str] = []

    def create() -> None:
        with broker.admin() as admin:
            for each in theirs:
                try:
                    admin.create([each])
                except RigError as error:
                    refused.append(str(error))

    thread = Thread(target=create)
    thread.start()
    for each in ours:
        assert add(zookeeper, [each]).failure == ""
    thread.join()
    assert refused == []
    assert read(zookeeper) == {*theirs, *ours}
    await_listed(broker, {*theirs, *ours})


def test_broker_removes_a_pattern_that_was_added(
    broker: ZooKeeperBroker, zookeeper: ZooKeeper
) -> None:
    add(zookeeper, EVERY_KIND)
    await_listed(broker, set(EVERY_KIND))
    gone = acl("User:a", "WRITE", transactional_id="tx-", pattern="PREFIXED")
    with broker.admin() as admin:
        assert admin.delete([AclFilter(gone.resource_type, "tx-", gone.pattern_type)]) == [gone]
    assert read(zookeeper) == set(EVERY_KIND) - {gone}
    assert add(zookeeper, [gone]).count == 1
    await_listed(broker, set(EVERY_KIND))


def test_user_who_owns_nothing_cannot_add(zookeeper: ZooKeeper, broker: ZooKeeperBroker) -> None:
    for sasl in (None, OTHER):
        with session_of(zookeeper, sasl=sasl) as session:
            writer = AclWriter(session, WriteOptions(accepts_open=True))
            added = writer.add_all(writer.find_missing([acl(topic="t")]).new)
        assert "/kafka-acl/Topic/t: ZooKeeper denies access" in added.failure
    assert list_acls(broker) == set()


def test_wrong_password_is_rejected(zookeeper: ZooKeeper) -> None:
    with (
        pytest.raises(ZooKeeperError, match="rejects the credentials") as caught,
        session_of(zookeeper, sasl=Login("kafka", "wrong-secret")) as session,
    ):
        session.get("/kafka-acl")
    assert "wrong-secret" not in str(caught.value)


def test_tls_and_log_in_from_a_properties_file(
    zookeeper: ZooKeeper, broker: ZooKeeperBroker, authority: Authority, tmp_path: Path
) -> None:
    keystore = authority.issue("client", "client.test")
    file = tmp_path / "server.properties"
    file.write_text(
        "zookeeper.ssl.client.enable=true\n"
        "zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n"
        f"zookeeper.ssl.truststore.location={authority.ca_file}\n"
        f"zookeeper.ssl.keystore.location={keystore}\n"
        f"authorizerd.zookeeper.sasl.jaas.config={LOGIN_MODULE} required "
        f'username="kafka" password="{USERS["kafka"]}";\n'
    )
    acls, back = tmp_path / "acls.yaml", tmp_path / "back.yaml"
    acls.write_text(FORMATS["yaml"].write(EVERY_KIND).text)
    place = f"zookeeper://{zookeeper.tls_address}{CHROOT}"
    assert main(["acls", "import", str(acls), "--to", place, "--command-config", str(file)]) == 0
    assert main(["acls", "import", place, "--to", str(back), "--command-config", str(file)]) == 0
    assert back.read_text() == acls.read_text()
    await_listed(broker, set(EVERY_KIND))
    settings = read_settings(file)
    assert settings.tls is not None
    context = new_client_context(settings.tls, read_material(settings.tls))
    clear, secured = (
        parse_address(each + CHROOT) for each in (zookeeper.address, zookeeper.tls_address)
    )
    quick = ZooKeeperSettings(connection_timeout_ms=1_000)
    for where, using in ((secured, None), (clear, context)):
        with pytest.raises(SessionLostError), open_session(where, quick, using) as session:
            session.get("/")


def test_export_is_refused_during_a_migration(
    zookeeper: ZooKeeper, broker: ZooKeeperBroker
) -> None:
    state = b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":1}'
    with session_of(zookeeper) as session:
        owner = session.get_permissions("/controller_epoch")
        assert owner is not None
        assert session.commit([Create(MIGRATION, state, owner)]) is Outcome.DONE
        try:
            with pytest.raises(ZooKeeperError, match="a KRaft controller owns"):
                AclWriter(session, WriteOptions()).find_missing([acl(topic="t")])
        finally:
            released = state.replace(b"3000", b"-1")
            assert session.commit([SetData(MIGRATION, released, 0)]) is Outcome.DONE
    assert add(zookeeper, [acl(topic="t")]).count == 1
    await_listed(broker, {acl(topic="t")})


def test_open_cluster_without_log_ins(old_rig: Rig, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    """A broker with zookeeper.set.acl=false, and an export before its first start."""
    chroot = "/open"
    with session_of(zookeeper, "", sasl=None) as session:
        assert session.commit([Create(chroot, b"", OPEN)]) is Outcome.DONE
    with session_of(zookeeper, chroot, sasl=None) as session:
        with pytest.raises(ZooKeeperError, match="everyone could change the new znodes"):
            AclWriter(session, WriteOptions()).find_missing(EVERY_KIND)
        writer = AclWriter(session, WriteOptions(accepts_open=True))
        assert writer.add_all(writer.find_missing(EVERY_KIND).new).failure == ""
    with running_zookeeper_broker(old_rig, tmp_path, zookeeper, chroot, user=None) as broker:
        assert list_acls(broker) == set(EVERY_KIND)
        with broker.admin() as admin:
            admin.delete([AclFilter()])
            admin.create(EVERY_KIND[:1])
        with session_of(zookeeper, chroot, sasl=None) as session:
            assert set(read_all(session)) == set(EVERY_KIND[:1])


def test_largest_request_that_is_planned_is_accepted(
    zookeeper: ZooKeeper, broker: ZooKeeperBroker
) -> None:
    largest = new_largest_pattern()
    assert add(zookeeper, largest).failure == ""
    await_listed(broker, set(largest))


@pytest.mark.parametrize(
    ("operations", "outcome"),
    [
        ([Create("/x", b"", OPEN), Check("/here", 0)], Outcome.DONE),
        ([Create("/x", b"", OPEN), Check("/here", 7)], Outcome.CONFLICT),
        ([SetData("/here", b"", 7), Create("/x", b"", OPEN)], Outcome.CONFLICT),
        ([Create("/x", b"", OPEN), Create("/here", b"", OPEN)], Outcome.CONFLICT),
        ([Create("/x", b"", OPEN), SetData("/none", b"", 0)], Outcome.CONFLICT),
        ([Create("/none/x", b"", OPEN)], Outcome.CONFLICT),
        ([Create("/x", b"", (Permission(31, "auth", ""),))], "rejects the permissions"),
        ([Create("/x", b"", OPEN), Create("/closed/x", b"", OPEN)], "/closed/x: .* denies access"),
        ([Create("/x\t", b"", OPEN)], "BadArgumentsError"),
    ],
)
def test_transactions_end_as_in_the_scripted_server(
    zookeeper: ZooKeeper,
    operations: list[Check | SetData | Create],
    outcome: Outcome | str,
    request: pytest.FixtureRequest,
) -> None:
    chroot = f"/case{abs(hash(request.node.name))}"
    with session_of(zookeeper, "", sasl=None) as session:
        for path, permissions in (("", OPEN), ("/here", OPEN), ("/closed", CLOSED)):
            assert session.commit([Create(chroot + path, b"", permissions)]) is Outcome.DONE
    with session_of(zookeeper, chroot, sasl=None) as session:
        if isinstance(outcome, Outcome):
            assert session.commit(operations) is outcome
        else:
            with pytest.raises(ZooKeeperError, match=outcome):
                session.commit(operations)
        assert (session.get("/x") is not None) is (outcome is Outcome.DONE)
