"""``authorizerd sync`` with a real directory and a real broker: how soon it denies, and faults.

Whole, the directory has 10,000 people in 500 groups.
"""

from __future__ import annotations

import random
import shutil
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, TypeVar

import pytest
import trio

from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl
from authorizerd.acl.notes import is_note
from authorizerd.cli.change.apply_server import KafkaAclServer
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.management.plan.changes import AclRequest, StepName
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.cli.change.acl_servers import open_server
from tests.cli.sync.syncing import Syncing, syncing
from tests.kafka_rig.broker import ADMIN, Broker, BrokerSettings, running_broker
from tests.kafka_rig.properties import client_properties, write_properties
from tests.kafka_rig.rig import Rig
from tests.support.daemon_process import wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.sizes import size
from tests.support.slapd import (
    PASSWORD,
    SUFFIX,
    group,
    groups_file,
    person,
    running_slapd,
    skip_without_slapd,
)  # fmt: skip

if TYPE_CHECKING:
    from ldap.ldapobject import SimpleLDAPObject

T = TypeVar("T")

PEOPLE, GROUPS, REMOVALS = size(300, 10_000), size(20, 500), size(12, 120)
INTERVAL_S = 5
ROUND_SECONDS_MAX = size(60, 300)
GROUPS_OF_EACH = 2
DUMMY = f"cn=reader,{SUFFIX}"
LIMITS = f"""\
sizelimit unlimited
access to * by dn.base="{DUMMY}" write by anonymous auth by * read
"""
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def find_groups(number: int) -> set[int]:
    """Return the groups of a person."""
    return {(number + each * (GROUPS // 2 + 1)) % GROUPS for each in range(GROUPS_OF_EACH)}


def list_members() -> dict[int, list[int]]:
    members: dict[int, list[int]] = {each: [] for each in range(GROUPS)}
    for number in range(PEOPLE):
        for each in find_groups(number):
            members[each].append(number)
    return members


def name_person(number: int) -> str:
    return f"uid=u{number},ou=people,{SUFFIX}"


class Directory:
    """A connection that may change the directory."""

    def __init__(self, folder: Path, port: int) -> None:
        import ldap

        self._ldap = ldap
        self._connection: SimpleLDAPObject = ldap.initialize(f"ldaps://127.0.0.1:{port}")
        self._connection.set_option(ldap.OPT_X_TLS_CACERTFILE, f"{folder}/ca.pem")
        self._connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
        self._connection.simple_bind_s(DUMMY, PASSWORD)

    def remove(self, number: int, member: int) -> None:
        self._change(number, self._ldap.MOD_DELETE, [name_person(member)])

    def replace(self, number: int, members: Iterable[int]) -> None:
        names = [name_person(member) for member in members]
        self._change(number, self._ldap.MOD_REPLACE, names or [DUMMY])

    def _change(self, number: int, kind: int, names: Sequence[str]) -> None:
        changes = [(kind, "member", [name.encode() for name in names])]
        self._connection.modify_s(f"cn=g{number},ou=groups,{SUFFIX}", changes)


class Stage:
    """A broker, a directory's folder, and the files of ``authorizerd sync``."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.members = list_members()
        self.desired = folder / "desired.yaml"
        entry = (
            '- {{principal: "Group:g{0}", operation: READ, permission_type: ALLOW, '
            "resource_type: TOPIC, resource_name: t{0}}}\n"
        )
        acls = "".join(f"  {entry.format(each)}" for each in self.members)
        self.desired.write_text(f"manages:\n  - principal: User:none\nacls:\n{acls}")

    @contextmanager
    def directory(self) -> Iterator[Directory]:
        entries = [person(f"u{number}") for number in range(PEOPLE)]
        entries += [
            group(f"g{number}", *(f"u{member}" for member in members))
            for number, members in self.members.items()
        ]
        with running_slapd(self.folder, entries, LIMITS) as port:
            groups_file(self.folder, port, ignored_members=f'["{DUMMY}"]')
            yield Directory(self.folder, port)

    @contextmanager
    def syncing(self) -> Iterator[Syncing]:
        config = self.folder / "client.properties"
        write_properties(config, client_properties(ADMIN, self.broker.settings.users[ADMIN]))
        words: list[str | Path] = [
            "sync", self.desired, "--groups", self.folder / "groups.yaml",
            "--bootstrap-server", self.broker.sasl_plaintext, "--command-config", config,
            "--super-users", f"User:{ADMIN}", "--allow-everyone-if-no-acl-found", "false",
            "--blocked-plan", self.folder / "blocked.json",
        ]  # fmt: skip
        with syncing(self.folder, words, interval=f"{INTERVAL_S}s") as process:
            yield process

    def use(self, use: Callable[[KafkaAclServer], Awaitable[T]]) -> T:
        """Return what ``use`` returns, with the broker as an administrator sees it."""
        password = self.broker.settings.users[ADMIN]
        credentials = Credentials(mechanism=Mechanism.PLAIN, username=ADMIN, password=password)

        async def run() -> T:
            async with open_server(self.broker.sasl_plaintext, credentials) as server:
                return await use(server)

        return trio.run(run)

    def list_acls(self) -> set[Acl]:
        return set(self.use(lambda server: server.list_acls()).acls.values())

    def change_acls(self, step: StepName, *acls: Acl) -> None:
        self.use(lambda server: server.send(AclRequest(step, acls), None))

    def count_acls(self) -> int:
        return sum(not is_note(acl) for acl in self.list_acls())


@pytest.fixture(scope="module")
def stage(rig: Rig, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    skip_without_slapd()
    folder = tmp_path_factory.mktemp("sync")
    shutil.copytree(formatted, folder / "log")
    users = {ADMIN: f"{ADMIN}-secret", **{f"u{number}": "secret" for number in range(REMOVALS)}}
    settings = BrokerSettings(users=users, audit_level="INFO")
    with running_broker(rig, folder, folder / "log", settings) as broker:
        yield Stage(broker, folder)


def wait_until_denied(broker: Broker, user: str, topic: str) -> float:
    """Return when a broker has denied a user for the first time, by the monotonic clock."""
    with closing(KafkaConnection(broker.sasl_plaintext, user, "secret")) as connection:
        while True:
            (found,) = connection.metadata(topic).topics
            if found.error_code == DENIED:
                return time.monotonic()
            time.sleep(0.02)


def test_removed_member_is_denied_within_the_interval_and_a_round(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = PEOPLE * GROUPS_OF_EACH
    delays: list[float] = []
    with stage.directory() as directory, stage.syncing() as process:
        process.wait_until_in_step(ROUND_SECONDS_MAX)
        assert stage.count_acls() == expected
        threads = []
        for number in range(REMOVALS):
            (victim_of, *_) = find_groups(number)

            def watch(user: str = f"u{number}", topic: str = f"t{victim_of}") -> None:
                began = time.monotonic()
                delays.append(wait_until_denied(stage.broker, user, topic) - began)

            directory.remove(victim_of, number)
            stage.members[victim_of].remove(number)
            threads.append(threading.Thread(target=watch))
            threads[-1].start()
            time.sleep(random.uniform(0, 2))
        for thread in threads:
            thread.join(ROUND_SECONDS_MAX)
        seconds = process.read_metric("round_seconds")
        wait_until(lambda: stage.count_acls() == expected - REMOVALS, "all are deleted", 60)
        assert process.read_metric("acls_deleted_total") == REMOVALS
    assert len(delays) == REMOVALS
    parts = quantiles(delays, n=100)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{PEOPLE} people, {GROUPS} groups, {expected} ACLs, interval {INTERVAL_S} s: from "
            f"{REMOVALS} removals to the denial p50 {parts[49]:.1f} s, p99 {parts[98]:.1f} s, max "
            f"{max(delays):.1f} s; the last round took {seconds:.1f} s\n"
        )


def test_directory_that_is_away_empty_or_halved_changes_nothing(stage: Stage) -> None:
    with stage.directory() as directory, stage.syncing() as process:
        process.wait_until_in_step(ROUND_SECONDS_MAX)
        before = stage.list_acls()
        half = stage.members[1][: len(stage.members[1]) // 3]
        nobody: dict[int, list[int]] = {each: [] for each in stage.members}
        faults: tuple[tuple[str, dict[int, list[int]]], ...] = (
            ("empty", {1: []}),
            ("removals", {1: half}),
            ("empty", nobody),
        )
        for reason, fault in faults:
            for number, members in fault.items():
                directory.replace(number, members)
            process.wait_until_blocked(reason, ROUND_SECONDS_MAX)
            with stage.syncing() as restarted:
                restarted.wait_until_blocked(reason, ROUND_SECONDS_MAX)
            assert stage.list_acls() == before
            for number, members in stage.members.items():
                directory.replace(number, members)
            process.wait_until_in_step(ROUND_SECONDS_MAX)
        assert stage.list_acls() == before
        age = process.read_metric("directory_age_seconds")
    with stage.syncing() as process:  # and the directory is away
        process.wait_until_blocked("away", ROUND_SECONDS_MAX)
        assert stage.list_acls() == before
        with stage.directory():
            process.wait_until_in_step(ROUND_SECONDS_MAX)
            assert process.read_metric("directory_age_seconds") <= age + ROUND_SECONDS_MAX
        assert stage.list_acls() == before


def test_grant_ends_although_files_and_directory_are_away(stage: Stage) -> None:
    acl = Acl(2, "granted", 3, "User:granted", "*", 3, 3)  # ALLOW READ on a topic
    now_ms = time.time_ns() // 1_000_000
    grant = Grant(
        id="g", acl=acl, begin_ms=now_ms, end_ms=now_ms + 15_000, author="User:a", reason="INC-1"
    )
    note = make_grant_note(grant)
    stage.change_acls("create_allow", acl, note)
    stage.folder.joinpath("groups.yaml").unlink(missing_ok=True)
    with stage.syncing() as process:
        process.wait_until_blocked("other")
        assert {acl, note} <= stage.list_acls()
        wait_until(lambda: stage.list_acls().isdisjoint((acl, note)), "the grant ends", 60)
        assert time.time_ns() // 1_000_000 >= grant.end_ms
        changes = 'authorizerd_grant_changes_total{result="ended"}'
        assert f"\n{changes} 1.0\n" in process.scrape()
