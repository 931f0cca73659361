"""A session over a scripted ZooKeeper: faults, time limits, TLS, and what errors say."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme

from authorizerd.cli.zookeeper.errors import SessionLostError, ZooKeeperError
from authorizerd.cli.zookeeper.options import OPEN, Permission
from authorizerd.cli.zookeeper.session import (
    REQUESTS_IN_FLIGHT_MAX,
    Check,
    Create,
    Outcome,
    Session,
    SetData,
    open_session,
)
from authorizerd.cli.zookeeper.settings import Ensemble, Login, ZooKeeperSettings, parse_address
from tests.support.daemon_process import closed_address
from tests.support.jute import Op
from tests.support.scripted_zookeeper import Fate, ScriptedZooKeeper, running_zookeeper

PATIENT = ZooKeeperSettings()
SHORT = ZooKeeperSettings(connection_timeout_ms=3_000)
"""For tests that reach the limit."""
SECRET = "Pa55-word"


@pytest.fixture
def zookeeper() -> Iterator[ScriptedZooKeeper]:
    with running_zookeeper() as server:
        yield server


@contextmanager
def session_with(
    server: ScriptedZooKeeper,
    settings: ZooKeeperSettings | None = None,
    context: ssl.SSLContext | None = None,
) -> Iterator[Session]:
    with open_session(parse_address(server.address), settings or PATIENT, context) as session:
        yield session


def test_znodes_are_read_in_order_even_if_many(zookeeper: ScriptedZooKeeper) -> None:
    count = 3 * REQUESTS_IN_FLIGHT_MAX
    for number in range(0, count, 2):
        zookeeper.put(f"/n/{number}", b"%d" % number)
    with session_with(zookeeper) as session:
        found = list(session.get_many(f"/n/{number}" for number in range(count)))
        assert session.list_children("/n") == sorted(str(n) for n in range(0, count, 2))
        assert session.list_children("/none") is None
    assert [None if each is None else each.data for each in found] == [
        None if number % 2 else b"%d" % number for number in range(count)
    ]


def test_paths_are_below_the_chroot(zookeeper: ScriptedZooKeeper) -> None:
    zookeeper.put("/a/b/c", b"x")
    address = parse_address(f"{zookeeper.address}/a/b")
    with open_session(address, PATIENT, None) as session:
        assert session.list_children("/") == ["c"]
        assert session.commit([Create("/d", b"y", OPEN)]) is Outcome.DONE
        assert session.name == f"zookeeper://{zookeeper.address}/a/b"
    assert zookeeper.data("/a/b") == {"c": b"x", "d": b"y"}


@pytest.mark.parametrize("fate", [Fate.LOST_BEFORE, Fate.LOST_AFTER])
def test_lost_read_is_repeated(zookeeper: ScriptedZooKeeper, fate: Fate) -> None:
    zookeeper.put("/a", b"x")
    zookeeper.on(Op.GET_DATA, "/a", fate)
    with session_with(zookeeper) as session:
        found = list(session.get_many(["/a"] * 5))
    assert [each and each.data for each in found] == [b"x"] * 5


def test_expired_session_is_replaced(zookeeper: ScriptedZooKeeper) -> None:
    zookeeper.put("/a", b"x")
    zookeeper.sessions_end = True
    zookeeper.on(Op.GET_DATA, "/a", Fate.LOST_BEFORE)
    with session_with(zookeeper) as session:
        assert session.get("/a") == (b"x", 0)


@pytest.mark.parametrize(("fate", "written"), [(Fate.LOST_BEFORE, False), (Fate.LOST_AFTER, True)])
def test_lost_change_is_sent_once_and_its_outcome_unknown(
    zookeeper: ScriptedZooKeeper, fate: Fate, written: bool
) -> None:
    zookeeper.on(Op.CREATE, "/a", fate)
    with session_with(zookeeper) as session:
        assert session.commit([Create("/a", b"", OPEN)]) is Outcome.UNKNOWN
        session.wait_for_connection()
        assert (session.get("/a") is not None) is written
    assert zookeeper.requests.count((Op.CREATE, "/a")) == 1


@pytest.mark.parametrize("conflict", [
    Check("/a", 7),
    SetData("/a", b"", 7),
    SetData("/none", b"", 0),
    Create("/a", b"", OPEN),
    Create("/none/a", b"", OPEN),
])  # fmt: skip
def test_conflict_undoes_the_whole_transaction(
    zookeeper: ScriptedZooKeeper, conflict: Check | SetData | Create
) -> None:
    zookeeper.put("/a", b"x")
    with session_with(zookeeper) as session:
        change = Create("/b", b"", OPEN)
        assert session.commit([change, conflict, change]) is Outcome.CONFLICT
        assert session.get("/b") is None
        assert session.commit([Check("/a", 0), change]) is Outcome.DONE


def test_permissions_are_set_and_read(zookeeper: ScriptedZooKeeper) -> None:
    own = (Permission(31, "digest", "a:hash"), Permission(1, "world", "anyone"))
    with session_with(zookeeper) as session:
        session.commit([Create("/a", b"", own)])
        assert session.get_permissions("/a") == (Permission(31, "digest", "a:x"), own[1])
        assert session.get_permissions("/none") is None
    assert zookeeper.tree.nodes["/a"].acls == own


def test_log_in_with_digest_gives_access(zookeeper: ScriptedZooKeeper) -> None:
    settings = ZooKeeperSettings(digest=Login("a", SECRET))
    with session_with(zookeeper, settings) as session:
        session.commit([Create("/a", b"x", (Permission(31, "auth", ""),))])
        assert session.get("/a") == (b"x", 0)
        zookeeper.break_connections()
        assert session.get("/a") == (b"x", 0)
    with (
        session_with(zookeeper) as session,
        pytest.raises(ZooKeeperError, match="/a: ZooKeeper denies access: log in with the keys"),
    ):
        session.get("/a")


def test_refused_change_is_an_error_with_its_path(zookeeper: ScriptedZooKeeper) -> None:
    zookeeper.put("/a", acls=((1, "world", "anyone"),))
    with session_with(zookeeper) as session:
        with pytest.raises(ZooKeeperError, match="/a/b: ZooKeeper denies access"):
            session.commit([Check("/", 0), Create("/a/b", b"", OPEN), Create("/c", b"", OPEN)])
        with pytest.raises(ZooKeeperError, match="/b: ZooKeeper rejects the permissions"):
            session.commit([Create("/b", b"", (Permission(31, "auth", ""),))])
        with pytest.raises(ZooKeeperError, match="BadArgumentsError"):
            session.get("/\t")


def test_rejected_sasl_log_in_is_reported_without_the_password(
    zookeeper: ScriptedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ZooKeeperSettings(sasl=Login("a", SECRET))
    zookeeper.put("/a")
    caplog.set_level(logging.NOTSET)
    with (
        pytest.raises(ZooKeeperError, match="rejects the credentials") as caught,
        session_with(zookeeper, settings) as session,
    ):
        session.get("/a")
    assert SECRET not in str(caught.value) + repr(settings) + caplog.text
    assert (Op.GET_DATA, "/a") not in zookeeper.requests


def test_no_password_in_log(zookeeper: ScriptedZooKeeper, caplog: pytest.LogCaptureFixture) -> None:
    settings = ZooKeeperSettings(digest=Login("a", SECRET))
    caplog.set_level(logging.NOTSET)
    zookeeper.put("/a")
    with session_with(zookeeper, settings) as session:
        session.get("/a")
    assert (Op.AUTH, "") in zookeeper.requests
    assert SECRET not in caplog.text + repr(settings)


@pytest.mark.parametrize(("fate", "reason"), [
    (Fate.ENDLESS, "no answer within 3 s: .* has closed the connection"),
    (Fate.GARBAGE, "no connection: the answer is not ZooKeeper's: error"),
    (Fate.UNANSWERED, "no answer within 3 s: .* has closed the connection"),
])  # fmt: skip
def test_server_that_does_not_answer_is_given_up(
    zookeeper: ScriptedZooKeeper, fate: Fate, reason: str
) -> None:
    for _ in range(50):
        zookeeper.on(Op.GET_DATA, "/a", fate)
    started = time.monotonic()
    with pytest.raises(SessionLostError, match=reason), session_with(zookeeper, SHORT) as session:
        session.get("/a")
    assert time.monotonic() - started < 15


def test_answer_that_claims_to_be_huge_ends_the_connection(zookeeper: ScriptedZooKeeper) -> None:
    """Memory for it would be taken at once; and the rest of it would never come."""
    zookeeper.put("/a", b"x")
    zookeeper.on(Op.GET_DATA, "/a", Fate.ENDLESS)
    with session_with(zookeeper) as session:
        assert session.get("/a") == (b"x", 0)


def test_closed_port_is_named() -> None:
    address = closed_address()
    with (
        pytest.raises(SessionLostError, match=f"{address}: Connection refused"),
        open_session(parse_address(address), SHORT, None),
    ):
        pass


def test_no_thread_is_left(zookeeper: ScriptedZooKeeper) -> None:
    with session_with(zookeeper) as session:
        session.list_children("/")
    assert not [each for each in threading.enumerate() if "kazoo" in each.name.lower()]
    assert not [each for each in threading.enumerate() if "_thread_worker" in each.name]


def test_tls_checks_the_certificate_and_the_host() -> None:
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    trusting, other = ssl.create_default_context(), ssl.create_default_context()
    ca.configure_trust(trusting)
    with running_zookeeper(context) as server:
        server.put("/big", b"x" * 300_000)
        with session_with(server, context=trusting) as session:
            found = session.get("/big")
            assert found is not None
            assert len(found.data) == 300_000
            assert session.commit([SetData("/big", b"y" * 200_000, 0)]) is Outcome.DONE
        port = server.address.partition(":")[2]
        for ensemble, using, reason in (
            (Ensemble((server.address,), ""), other, "unable to get local issuer certificate"),
            (Ensemble((f"localhost:{port}",), ""), trusting, "certificate is not valid for"),
        ):
            started = time.monotonic()
            with (
                pytest.raises(SessionLostError, match=f"no connection: .*TLS: .*{reason}"),
                open_session(ensemble, ZooKeeperSettings(), using),
            ):
                pass
            assert time.monotonic() - started < 10, "a wrong certificate is not waited for"
