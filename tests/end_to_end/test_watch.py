"""A real daemon whose ACLs are listed and watched while an admin client changes them."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType
from authorizerd.acl.model import ResourceType as AclType
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.daemon.decision_place import entry
from tests.support.acl_events import AclCopy, Event, EventReader
from tests.support.admin_client import (
    ANYTHING,
    binding,
    create_acls,
    delete_acls,
    describe_acls,
    filter_of,
    new_admin,
)
from tests.support.daemon_process import (
    SECONDS_MAX,
    DaemonProcess,
    ask,
    new_log,
    running,
    wait_until,
    write_config,
)
from tests.support.log_files import added, read_acls, write_log
from tests.support.requests import evaluation

ROOT_TOKEN, CONSOLE_TOKEN = "root.secret", "console.secret"
CONSOLE = "User:console"
SETTINGS = {"super.users": "User:ANONYMOUS;User:root"}


def write_tokens(folder: Path, *names: str) -> Path:
    path = folder / "tokens"
    path.write_text("".join(entry(name, f"User:{name}") for name in names))
    return path


@contextmanager
def daemon_with_tokens(folder: Path, **settings: str) -> Iterator[DaemonProcess]:
    tokens = write_tokens(folder, "root", "console")
    log_dir = folder / "log" if (folder / "log").exists() else new_log(folder)
    with running(
        folder, log_dir, SETTINGS, authorizerd_tokens_file=str(tokens), **settings
    ) as daemon:
        yield daemon


def list_acls(daemon: DaemonProcess, token: str = ROOT_TOKEN, query: str = "") -> bytes:
    answer = ask(
        daemon.decision, "GET", f"/v1/acls{query}", None, {"Authorization": f"Bearer {token}"}
    )
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    return answer.body


class Watch:
    """One watch over a connection of its own."""

    def __init__(self, daemon: DaemonProcess, token: str = ROOT_TOKEN, query: str = "") -> None:
        self._connection = HTTPConnection(daemon.ready["decision_http"], timeout=SECONDS_MAX)
        self._connection.request(
            "GET", f"/v1/watch{query}", headers={"Authorization": f"Bearer {token}"}
        )
        self.response = self._connection.getresponse()
        self.reader = EventReader()
        self._events: list[Event] = []

    def read_refusal(self) -> tuple[int, str]:
        """Return status and text of a watch that was refused."""
        text = self.response.read().decode()
        self.close()
        return self.response.status, text

    def next(self) -> Event | None:
        """Return the next event, None at the end of the body; IncompleteRead: it is cut off."""
        while not self._events:
            data = self.response.read1(65536)
            if not data:
                # http.client reports a body that is cut off only to a complete read.
                assert self.response.read() == b""
                return None
            self._events = self.reader.receive(data)
        return self._events.pop(0)

    def expect(self, name: str) -> Event:
        event = self.next()
        assert event is not None
        assert event.name == name, event
        return event

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def test_listing_and_watch_show_an_admin_clients_changes(tmp_path: Path) -> None:
    """A second watch resumes after the first; a restart asks clients to list again."""
    with ExitStack() as stack:
        daemon = stack.enter_context(daemon_with_tokens(tmp_path))
        admin = new_admin(daemon)
        assert create_acls(admin, binding("orders"), binding("payments")) == [None, None]
        copy = AclCopy()
        copy.begin_with(list_acls(daemon))
        assert {acl["resource_name"] for acl in copy.acls.values()} == {"orders", "payments"}
        watch = Watch(daemon, query=f"?after={copy.offset}")
        stack.callback(watch.close)
        assert watch.response.getheader("Content-Type") == "text/event-stream"
        assert watch.response.getheader("Transfer-Encoding") == "chunked"
        assert watch.expect("begin").data == {"after": copy.offset, "offset": copy.offset}
        assert create_acls(admin, binding("returns")) == [None]
        first = watch.expect("acls")
        copy.apply(first)
        assert first.data["changes"][0]["acl"] == {
            "resource_type": "TOPIC",
            "resource_name": "returns",
            "pattern_type": "LITERAL",
            "principal": "User:alice",
            "host": "*",
            "operation": "READ",
            "permission_type": "ALLOW",
        }
        delete_acls(admin, filter_of("orders"))
        copy.apply(watch.expect("acls"))
        assert {acl["resource_name"] for acl in copy.acls.values()} == {"payments", "returns"}
        again = Watch(daemon, query=f"?after={first.id}")
        stack.callback(again.close)
        assert again.expect("begin").data == {"after": int(first.id), "offset": copy.offset}
        assert again.expect("acls").data["changes"][0]["change"] == "remove"
        assert daemon.metric("authorizerd_watchers") == 2
        assert daemon.metric("authorizerd_watch_events_total") == 3
        code, errors = daemon.stop()
        assert code == 0, errors
        assert watch.next() is None
        restarted = stack.enter_context(
            running(
                tmp_path,
                tmp_path / "log",
                SETTINGS,
                authorizerd_tokens_file=str(tmp_path / "tokens"),
            )
        )
        status, text = Watch(restarted, query=f"?after={first.id}").read_refusal()
        assert status == 410
        assert "list the ACLs again" in text
        after_restart = AclCopy()
        after_restart.begin_with(list_acls(restarted))
        assert after_restart.acls == copy.acls


JSON_HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {ROOT_TOKEN}"}
LITERAL, ALLOW, READ = PatternType.LITERAL, PermissionType.ALLOW, Operation.READ
LATER_TYPE = Acl(max(AclType) + 1, "mirror", LITERAL, "User:m", "*", READ, ALLOW)
LATER_CODES = (
    LATER_TYPE,
    Acl(AclType.TOPIC, "m", LITERAL, "User:m", "*", max(Operation) + 1, ALLOW),
    Acl(AclType.TOPIC, "p", LITERAL, "User:m", "*", READ, max(PermissionType) + 1),
    Acl(AclType.TOPIC, "t", max(PatternType) + 1, "User:m", "*", READ, ALLOW),
)


def test_acls_with_codes_of_a_later_kafka_never_allow_and_are_kept(tmp_path: Path) -> None:
    """They are listed, watched, deleted and written into checkpoints like others."""
    write_log(tmp_path / "log", [added(number, each) for number, each in enumerate(LATER_CODES, 1)])
    settings = {"metadata_log_max_record_bytes_between_snapshots": "1"}
    with ExitStack() as stack:
        daemon = stack.enter_context(daemon_with_tokens(tmp_path, **settings))
        for topic in ("m", "p", "t", "mirror"):
            asked = json.dumps(evaluation("m", topic=topic, host="10.0.0.1")).encode()
            answer = ask(daemon.decision, "POST", "/access/v1/evaluation", asked, JSON_HEADERS)
            assert answer.json["decision"] is False
        copy = AclCopy()
        copy.begin_with(list_acls(daemon))
        assert len(copy.acls) == len(LATER_CODES)
        admin = new_admin(daemon)
        types = [each.restype for each in describe_acls(admin)]
        assert types.count(ResourceType.UNKNOWN) == 1
        assert len(types) == len(LATER_CODES)
        watch = Watch(daemon, query=f"?after={copy.offset}")
        stack.callback(watch.close)
        watch.expect("begin")
        delete_acls(admin, filter_of("p"))
        assert watch.expect("acls").data["changes"][0]["change"] == "remove"
        folder = tmp_path / "log" / METADATA_TOPIC_DIRECTORY
        wait_until(lambda: any(folder.glob("*.checkpoint")), "a checkpoint is written")
        assert daemon.stop()[0] == 0
    (checkpoint,) = folder.glob("*.checkpoint")
    assert set(read_acls(checkpoint).values()) >= {LATER_TYPE}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_only_callers_with_the_right_to_read_see_acls(workers: str, tmp_path: Path) -> None:
    """The right may be given and taken away while the daemon runs."""
    settings = {
        **SETTINGS,
        "authorizerd.tokens.file": str(tmp_path / "tokens"),
        "authorizerd.workers": workers,
    }

    def apply(topic: str, **rights: str) -> None:
        write_config(tmp_path, tmp_path / "log", settings, **rights)
        daemon.reload()
        assert create_acls(admin, binding(topic)) == [None]  # workers apply settings before it

    with ExitStack() as stack:
        daemon = stack.enter_context(daemon_with_tokens(tmp_path, authorizerd_workers=workers))
        admin = new_admin(daemon)
        for path in ("/v1/acls", "/v1/watch"):
            for token, status in ((CONSOLE_TOKEN, 403), ("console.wrong", 401)):
                headers = {"Authorization": f"Bearer {token}"}
                assert ask(daemon.decision, "GET", path, None, headers).status == status
            assert ask(daemon.decision, "GET", path).status == 401
        apply("a", authorizerd_callers_read=CONSOLE)
        watch = Watch(daemon, CONSOLE_TOKEN)
        stack.callback(watch.close)
        watch.expect("begin")
        assert b'"count":1' in list_acls(daemon, CONSOLE_TOKEN)
        apply("b", authorizerd_callers_ask=CONSOLE, authorizerd_callers_search=CONSOLE)
        reason = watch.expect("closed").data["reason"]
        assert "authorizerd.callers.read does not list it" in reason
        assert watch.next() is None
        ended = 'authorizerd_watchers_ended_total{reason="forbidden"}'
        wait_until(lambda: daemon.metric(ended) == 1, "the workers have reported their counts")
        apply("c", authorizerd_callers_read=CONSOLE)
        watch = Watch(daemon, CONSOLE_TOKEN)
        stack.callback(watch.close)
        watch.expect("begin")
        write_tokens(tmp_path, "root")
        apply("d", authorizerd_callers_read=CONSOLE)
        watch.expect("closed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_watches_end_with_the_daemon(tmp_path: Path, number: signal.Signals) -> None:
    """At once, and completely: a client can tell it from a lost connection."""
    with ExitStack() as stack:
        daemon = stack.enter_context(daemon_with_tokens(tmp_path))
        watches = [Watch(daemon) for _ in range(3)]
        for watch in watches:
            stack.callback(watch.close)
            watch.expect("begin")
        code, errors = daemon.stop(number)
        assert code == 0, errors
        assert [watch.next() for watch in watches] == [None] * 3


def test_clients_of_workers_end_with_the_same_acls(tmp_path: Path) -> None:
    """Each worker has its own journal. A client may resume at another worker."""
    tokens = write_tokens(tmp_path, "root")
    with ExitStack() as stack:
        daemon = stack.enter_context(
            running(
                tmp_path,
                new_log(tmp_path),
                SETTINGS | {"authorizerd.workers": "2"},
                authorizerd_tokens_file=str(tokens),
                authorizerd_watch_max_connections="16",
            )
        )
        wait_until(lambda: daemon.metric("authorizerd_workers") == 2, "both workers listen")
        admin = new_admin(daemon)
        copy = AclCopy()
        copy.begin_with(list_acls(daemon))
        for number in range(6):
            assert create_acls(admin, binding(f"t{number}")) == [None]
            if number % 2:
                delete_acls(admin, filter_of(f"t{number - 1}"))
            watch = Watch(daemon, query=f"?after={copy.offset}")
            stack.callback(watch.close)
            assert watch.expect("begin").data["after"] == copy.offset
            for _ in range(1 + number % 2):
                copy.apply(watch.expect("acls"))
        listed = {acl["resource_name"] for acl in copy.acls.values()}
        assert (
            listed == {each.name for each in describe_acls(admin, ANYTHING)} == {"t1", "t3", "t5"}
        )
        assert daemon.metric("authorizerd_watchers") >= 0
