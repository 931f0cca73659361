"""``authorizerd verify`` on brokers whose ACLs change while clients are allowed and denied.

The brokers log their decisions, and a controller's log has the ACLs. Then faults are planted in
either, or in the settings, and each is found with its cause.
"""

import json
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from authorizerd.acl.model import Acl, AclAdded
from authorizerd.protocol.verification import Cause
from authorizerd.replay.verify.log_states import read_history
from tests.conformance.churn import POOL, PRINCIPAL, TOPICS
from tests.conformance.followers import Follower
from tests.kafka_rig.broker import ADMIN
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import NODE, ClusterSettings
from tests.kafka_rig.followers import quorum_source
from tests.kafka_rig.rig import Rig
from tests.ops.replay.verify.scripted_broker import START_MS, Step, causes, write_history
from tests.support.acls import acl, exact_filter
from tests.support.background import Background
from tests.support.daemon_process import COMMAND
from tests.support.log_files import added

CHANGES = 200
PAUSE_SECONDS = 0.1
"""The record is many times as long as a window of 1 s."""
HOSTS = ("127.0.0.1", "127.0.0.2")
GRANTED, RANGED, ENDED, NOBODY = "granted", "ranged", "ended", "nobody"
FIRST = (
    acl(PRINCIPAL, "READ", topic=GRANTED),
    acl(PRINCIPAL, "READ", topic=RANGED, host="127.0.0.0/8"),
    acl(PRINCIPAL, "READ", topic=ENDED),
)
SETTINGS = ("--super-users", f"User:{ADMIN}", "--allow-everyone-if-no-acl-found", "false")
TIME = re.compile(r"^\[([^]]*)\]", re.MULTILINE)

Steps = list[Step]


class Verifier(Background):
    """Verify again and again while brokers and controller write."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.documents: list[Any] = []
        self._cluster = cluster

    def _run(self) -> None:
        logs = [broker.process.audit_log for broker in self._cluster.brokers]
        while not self._ends.is_set():
            place = ("--log-dir", self._cluster.controllers[0].log_dir, *SETTINGS)
            self.documents.append(verify(logs, *place)[1])


@dataclass(frozen=True)
class Record:
    """The audit logs of two brokers, the controller's log, and a daemon that follows it."""

    logs: Sequence[Path]
    log_dir: Path
    cluster: Cluster
    follower: Follower
    verifier: Verifier


def change_and_ask(cluster: Cluster, chance: random.Random, verifier: Verifier) -> None:
    """Change one ACL after another, and ask after each change, at each broker from two hosts."""
    user = PRINCIPAL.removeprefix("User:")
    present: set[Acl] = {FIRST[-1]}
    with ExitStack() as stack:
        admin = stack.enter_context(cluster.admin(cluster.find_leader()))
        clients = [
            stack.enter_context(cluster.admin(broker.node_id, user, host))
            for broker in cluster.brokers
            for host in HOSTS
        ]
        for number in range(CHANGES):
            if number == CHANGES // 4:
                stack.enter_context(verifier)
            changed = FIRST[-1] if number == CHANGES // 2 else chance.choice(POOL)
            if changed in present:
                admin.delete([exact_filter(changed)])
            else:
                admin.create([changed])
            present ^= {changed}
            for client in clients:
                asked = chance.sample(TOPICS, 10)
                client.may_describe(*asked, GRANTED, RANGED, ENDED, NOBODY)
            time.sleep(PAUSE_SECONDS)


@pytest.fixture(scope="module")
def record(rig: Rig, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    folder = tmp_path_factory.mktemp("verify")
    users = {**NODE.users, PRINCIPAL.removeprefix("User:"): "secret"}
    settings = ClusterSettings(controllers=1, brokers=2, node=replace(NODE, users=users))
    with running_cluster(rig, folder, settings) as cluster:
        cluster.create(*FIRST)
        with Follower(folder / "follower", quorum_source(cluster)) as follower:
            verifier = Verifier(cluster)
            change_and_ask(cluster, random.Random(seed), verifier)
            follower.wait_for_offset(cluster.quorum().high_watermark - 1)
            logs = [broker.process.audit_log for broker in cluster.brokers]
            yield Record(logs, cluster.controllers[0].log_dir, cluster, follower, verifier)


def verify(logs: Sequence[Path], *words: str | Path) -> tuple[int, Any]:
    """Return the exit code and the document."""
    command = [*COMMAND, "verify", "--json", "--window", "1s", "--logs", *logs, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_brokers_agree_with_the_acls_of_each_moment(record: Record) -> None:
    """The log is read where the controller writes it, the copy where the daemon does."""
    own = ("--config", record.follower.config)
    compared = (*own, "--broker-config", record.cluster.brokers[0].config)
    for place in (("--log-dir", record.log_dir, *SETTINGS), own, compared):
        code, document = verify(record.logs, *place)
        assert (code, document["differences"]) == (0, []), document
        assert document.get("settings", []) == []
        assert document["states"] > CHANGES
        assert document["agreed"] >= CHANGES * len(HOSTS) * 2 * 14
        assert sum(document["not_judged"].values()) <= document["agreed"] // 1000, document


def test_logs_that_are_being_written_differ_in_nothing(record: Record) -> None:
    """The audit logs have decisions by changes that the verifier has not read yet."""
    assert record.verifier.documents
    for document in record.verifier.documents:
        assert document["differences"] == []
        assert document["agreed"] > 0


def test_listing_of_the_brokers_judges_by_what_they_show(record: Record) -> None:
    """They do not show their settings, and nothing is known of earlier states."""
    place = (
        *("--bootstrap-server", record.cluster.bootstrap_servers),
        *("--command-config", record.cluster.client_config(ADMIN)),
    )
    code, document = verify(record.logs, *place)
    assert code == 3
    assert (document["super_users"], document["allow_everyone_if_no_acl_found"]) == (None, None)
    assert set(causes(document)) == {Cause.HISTORY_LACKS, Cause.BROKER_LACKED}
    assert document["agreed"] > 0
    assert document["acls"].startswith(f"{record.cluster.bootstrap_servers}, listed at 20")


def leave_out(steps: Steps, gone: Acl, *, added_again: bool = False) -> Steps:
    """Return the steps without the addition of an ACL, or without its removal."""
    ids = {
        change.id
        for step in steps
        for change in step.changes
        if isinstance(change, AclAdded) and change.acl == gone
    }
    return [
        Step(step.at_s, [
            change for change in step.changes
            if change.id not in ids or isinstance(change, AclAdded) is added_again
        ])
        for step in steps
    ]  # fmt: skip


def insert(steps: Steps, more: Acl) -> Steps:
    return [*steps[:2], Step(steps[1].at_s, (added(999_999, more),)), *steps[2:]]


def delay(text: str) -> str:
    """Return the lines a minute later."""

    def move(found: re.Match[str]) -> str:
        at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f") + timedelta(minutes=1)
        return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}]"

    return TIME.sub(move, text)


def overrule(text: str) -> str:
    """Return the lines with another authorizer's decisions about a topic."""
    return re.sub(
        rf"is Allowed (.* on resource = Topic:LITERAL:{GRANTED} .* based on rule )\S+.* \(kafka",
        r"is Denied \1com.example.Opa (kafka",
        text,
    )


def keep_steps(steps: Steps) -> Steps:
    return steps


def keep_text(text: str) -> str:
    return text


@pytest.mark.parametrize(("edit", "rewrite", "words", "cause"), [
    pytest.param(keep_steps, keep_text, (), None, id="none"),
    pytest.param(
        lambda steps: insert(steps, acl(PRINCIPAL, "DESCRIBE", topic=GRANTED, deny=True)),
        keep_text, (), Cause.BROKER_LACKED, id="an ACL more",
    ),
    pytest.param(
        lambda steps: leave_out(steps, FIRST[0]), keep_text, (), Cause.HISTORY_LACKS,
        id="an ACL less",
    ),
    pytest.param(
        keep_steps, keep_text, ("--kafka-release", "4.4"), Cause.RELEASE, id="another release"
    ),
    pytest.param(
        keep_steps, keep_text, ("--super-users", f"User:{ADMIN};{PRINCIPAL}"), Cause.SUPER_USERS,
        id="a super user",
    ),
    pytest.param(keep_steps, overrule, (), Cause.PLUG_IN, id="a plug-in"),
    pytest.param(
        keep_steps, keep_text, ("--allow-everyone-if-no-acl-found", "true"), Cause.DEFAULT,
        id="a default",
    ),
    pytest.param(
        lambda steps: leave_out(steps, FIRST[-1], added_again=True), keep_text, (),
        Cause.BROKER_LACKED, id="a lost record",
    ),
    pytest.param(keep_steps, delay, (), Cause.CLOCK, id="a clock"),
])  # fmt: skip
def test_planted_fault_is_found_and_its_cause_is_named(
    edit: Callable[[Steps], Steps], rewrite: Callable[[str], str], words: tuple[str, ...],
    cause: Cause | None, record: Record, tmp_path: Path,
) -> None:  # fmt: skip
    history = read_history(record.log_dir)
    steps = [
        Step((each.time_ms - START_MS) / 1000, tuple(one.change for one in each.changes))
        for each in history.states
    ]
    log_dir = write_history(tmp_path / "log", edit(steps), steps[-1].at_s + 600)
    other = tmp_path / "kafka-authorizer.log"
    other.write_text(rewrite(record.logs[1].read_text()))
    code, document = verify([record.logs[0], other], "--log-dir", log_dir, *SETTINGS, *words)
    found = causes(document)
    if cause is None:
        assert (code, found) == (0, {})
    else:
        # At the time of another change, the cause of a few decisions is ambiguous.
        assert (code, found[cause] >= 0.95 * sum(found.values())) == (3, True), document


@pytest.mark.parametrize(("key", "value"), [
    ("ssl.principal.mapping.rules", "RULE:^CN=(.*?),.*$/$1/"),
    ("principal.builder.class", "com.example.Names"),
])  # fmt: skip
def test_rule_that_names_principals_is_found(
    key: str, value: str, record: Record, tmp_path: Path
) -> None:
    broker = tmp_path / "server.properties"
    broker.write_text(f"{record.cluster.brokers[0].config.read_text()}\n{key}={value}\n")
    words = ("--config", record.follower.config, "--broker-config", broker)
    code, document = verify(record.logs, *words)
    assert (code, document["differences"]) == (3, [])
    assert [(one["key"], one["broker"]) for one in document["settings"]] == [(key, value)]
