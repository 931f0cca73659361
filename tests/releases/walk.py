"""A walk through a real cluster of one release, with a daemon for each source that follows it.

Each step changes something. Then the brokers, which a real client asks, and both daemons must
decide as expected.

**Invariant:** a step passes only if the daemon and every running broker decide the same.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from authorizerd.acl.model import Acl
from authorizerd.protocol.decisions.stream import ALLOWED, DENIED
from authorizerd.protocol.kafka.error_codes import ErrorCode
from tests.conformance.writing_daemons import LISTENER, PASSWORD, PRINCIPALS, PRIVILEGED, may_alter
from tests.kafka_rig.cluster import Cluster, running_cluster
from tests.kafka_rig.cluster_settings import POLLER, ClusterSettings
from tests.kafka_rig.followers import brokers_source, quorum_source
from tests.kafka_rig.properties import PLAIN_LOGIN, client_properties, write_properties
from tests.kafka_rig.rig import Rig, RigError
from tests.releases.versions import Compared
from tests.support.acls import acl, exact_filter, question
from tests.support.background import Background
from tests.support.daemon_process import DaemonProcess, ask, running, wait_until
from tests.support.kafka_connection import KafkaConnection
from tests.support.requests import stream_question
from tests.support.stream_connection import StreamConnection

SOURCES: Final = ("quorum", "brokers")
ASKER: Final = "alice"
"""The user that asks. The controllers let it change ACLs."""
STRANGER: Final = "bob"
"""A user without rights."""
SUPER_USER: Final = "carol"
"""A super user of the daemons, which the cluster does not know."""
ARRIVAL_SECONDS_MAX: Final = 60.0
_KEPT: Final = "walk-kept"
"""The topic that stays allowed until the end."""
_PAUSE_SECONDS: Final = 0.05
_OWN: Final = {
    "node.id": "9",
    "super.users": f"User:{SUPER_USER}",
    "listeners": f"{LISTENER}://127.0.0.1:0",
    "listener.security.protocol.map": f"CONTROLLER:SASL_PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": PLAIN_LOGIN
    + "".join(f' user_{name}="{PASSWORD}"' for name in (ASKER, STRANGER, SUPER_USER))
    + ";",
}
_FORWARD: Final = {
    "authorizerd.writes": "forward",
    PRINCIPALS: f"User:{ASKER}",
    PRIVILEGED: "local-users",
}
_AS_SELF: Final = {"authorizerd.writes": "as-self", "authorizerd.source.poll.ms": "500"}
_WRITES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "quorum": (ASKER, _FORWARD),
    "brokers": (SUPER_USER, _AS_SELF),
}
"""For each source: who may change ACLs through the daemon, and how the daemon sends changes."""


@dataclass(slots=True)
class Walk:
    """The steps of one source that passed, in order, and the error of the one that did not."""

    passed: list[str] = field(default_factory=list)
    error: str = ""


class _Side:
    """A daemon that follows the cluster by one source."""

    def __init__(self, source: str, daemon: DaemonProcess) -> None:
        self.source: Final = source
        self.daemon: Final = daemon
        self.walk: Final = Walk()
        self.writer, _ = _WRITES[source]

    @property
    def listener(self) -> str:
        address: str = self.daemon.ready["listeners"][LISTENER]
        return address

    @property
    def followed(self) -> int:
        """The id of the controller or broker that the daemon reads from."""
        return int(self.daemon.metric("authorizerd_source_leader_id"))

    def is_allowed(self, topic: str) -> bool:
        """Return the decision: may the asker describe the topic from 127.0.0.1?"""
        asked = question(f"User:{ASKER}", "DESCRIBE", host="127.0.0.1", topic=topic)
        with closing(StreamConnection(self.daemon.ready["decision_stream"])) as connection:
            answer = connection.ask(stream_question(asked))
        assert answer.error_code == 0, answer
        assert bytes(answer.decisions) in (bytes([ALLOWED]), bytes([DENIED])), answer
        return bytes(answer.decisions) == bytes([ALLOWED])

    def await_decision(self, topic: str, *, is_allowed: bool) -> None:
        wait_until(
            lambda: self.is_allowed(topic) is is_allowed,
            f"{topic} is {'allowed' if is_allowed else 'denied'}",
            ARRIVAL_SECONDS_MAX,
        )


class _SteadyAsker(Background):
    """Ask a daemon about the kept topic all the time. Every answer must be that it is allowed."""

    def __init__(self, side: _Side) -> None:
        super().__init__()
        self.answers = 0
        self.faults: list[str] = []
        self._side = side

    def _run(self) -> None:
        while not self._ends.is_set() and not self.faults:
            try:
                assert self._side.is_allowed(_KEPT), "it is denied"
            except (AssertionError, OSError) as error:
                self.faults.append(f"{_KEPT}: {error}")
            self.answers += 1
            time.sleep(_PAUSE_SECONDS)


def walk_release(rig: Rig, directory: Path, release: Compared) -> Mapping[str, Walk]:
    """Run a cluster of a release, take every step, and return the walk of each source.

    Raises:
        RigError: a node did not start, or the cluster did not do what a client asked.
    """
    with ExitStack() as stack:
        settings = ClusterSettings(controllers=3, brokers=2)
        cluster = stack.enter_context(running_cluster(rig, directory / "cluster", settings))
        cluster.create(may_alter(ASKER), may_alter(POLLER), _reading(_KEPT))
        configs = {"quorum": quorum_source(cluster), "brokers": brokers_source(cluster)}
        sides: list[_Side] = []
        failed: dict[str, Walk] = {}
        for source, config in configs.items():
            folder = directory / source
            folder.mkdir()
            _, writes = _WRITES[source]
            daemon = running(folder, folder / "copy", {**config, **_OWN, **writes})
            try:
                sides.append(_Side(source, stack.enter_context(daemon)))
            except AssertionError as error:
                failed[source] = Walk(error=f"start: {error}")
        if not failed:
            _Walker(cluster, sides, directory, release).run()
        return {side.source: side.walk for side in sides} | failed


class _Walker:
    """Takes the steps in order. A source whose step has failed takes no other."""

    def __init__(
        self, cluster: Cluster, sides: list[_Side], directory: Path, release: Compared
    ) -> None:
        self._cluster: Final = cluster
        self._sides: Final = sides
        self._directory: Final = directory
        self._release: Final = release

    def run(self) -> None:
        create, delete = self._cluster.create, self._delete
        granted = _reading("walk")
        denial = acl(f"User:{ASKER}", "ALL", topic="walk", deny=True, host="127.0.0.1")
        range_denial = acl(f"User:{ASKER}", "ALL", topic="walk", deny=True, host="127.0.0.0/8")
        self._step("release", self._check_release)
        self._follow("create", lambda: create(granted), is_allowed=True)
        self._follow("deny", lambda: create(denial), is_allowed=False)
        self._follow("delete a deny", lambda: delete(denial), is_allowed=True)
        self._follow(
            "range of hosts",
            lambda: create(range_denial),
            is_allowed=not self._release.rules.range_denies,
        )
        self._follow("delete", lambda: delete(granted, range_denial), is_allowed=False)
        self._step("refuse", self._check_refusal)
        self._step("forward", self._check_kafka_acls)
        self._fail_over()
        self._step("forward after fail over", self._check_forwarding)

    def _step(self, name: str, check: Callable[[_Side], None]) -> None:
        for side in self._sides:
            if side.walk.error:
                continue
            try:
                check(side)
            except (AssertionError, OSError) as error:
                side.walk.error = f"{name}: {error}"
            else:
                side.walk.passed.append(name)

    def _follow(self, name: str, change: Callable[[], object], *, is_allowed: bool) -> None:
        """Change the cluster as its own clients do; brokers and daemons must follow."""
        change()
        self._await_brokers("walk", is_allowed=is_allowed)
        self._step(name, lambda side: side.await_decision("walk", is_allowed=is_allowed))

    def _await_brokers(self, topic: str, *, is_allowed: bool) -> None:
        for broker in self._cluster.brokers:
            if broker.process.can_answer:
                with self._cluster.admin(broker.node_id, ASKER) as client:
                    self._cluster.wait_for(
                        lambda: (topic in client.may_describe(topic)) is is_allowed,
                        f"broker {broker.node_id} follows",
                    )

    def _check_release(self, side: _Side) -> None:
        expected = f"judged by the rules of Kafka {self._release.rules}:"
        wait_until(
            lambda: expected in ask(side.daemon.admin, "GET", "/readyz").body.decode(), expected
        )

    def _check_refusal(self, side: _Side) -> None:
        """Let a user without rights grant itself something through the daemon."""
        with closing(KafkaConnection(side.listener, STRANGER, PASSWORD)) as client:
            [error] = client.create(_reading("walk", STRANGER))
        assert error is not None
        assert error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error
        with self._cluster.admin(self._cluster.brokers[0].node_id) as admin:
            assert _reading("walk", STRANGER) not in admin.describe()

    def _check_kafka_acls(self, side: _Side) -> None:
        """Grant and revoke a right with the release's kafka-acls, which knows only the daemon."""
        topic = f"walk-{side.source}"
        right = ("--allow-principal", f"User:{ASKER}", "--operation", "Read", "--topic", topic)
        for change, is_allowed in ((("--add",), True), (("--remove", "--force"), False)):
            self._run_kafka_acls(side, *change, *right)
            self._await_brokers(topic, is_allowed=is_allowed)
            side.await_decision(topic, is_allowed=is_allowed)

    def _run_kafka_acls(self, side: _Side, *arguments: str) -> None:
        config = self._directory / f"{side.source}.properties"
        write_properties(config, client_properties(side.writer, PASSWORD))
        done = self._cluster.rig.run_class(
            self._release.acls_class, "--bootstrap-server", side.listener,
            "--command-config", config, *arguments,
        )  # fmt: skip
        assert done.exit_code == 0, f"{done.stdout}{done.stderr}"

    def _check_forwarding(self, side: _Side) -> None:
        """Grant and revoke a right through the daemon, which now follows another node."""
        topic = f"walk-{side.source}"
        with closing(KafkaConnection(side.listener, side.writer, PASSWORD)) as client:
            assert client.create(_reading(topic)) == [None]
            assert side.is_allowed(topic), "an acknowledged change must be in force"
            self._await_brokers(topic, is_allowed=True)
            assert client.delete_name(topic) == 1
            assert not side.is_allowed(topic), "an acknowledged change must be in force"
            self._await_brokers(topic, is_allowed=False)

    def _fail_over(self) -> None:
        """Kill the leader and the broker that a daemon lists; both must decide meanwhile."""
        killed = {"quorum": self._cluster.find_leader(), "brokers": self._sides[1].followed}
        with ExitStack() as stack:
            askers = {side.source: stack.enter_context(_SteadyAsker(side)) for side in self._sides}
            for node_id in killed.values():
                self._cluster.kill(node_id)
            self._cluster.create(_reading("walk"))
            self._await_brokers("walk", is_allowed=True)

            def check(side: _Side) -> None:
                side.await_decision("walk", is_allowed=True)
                wait_until(
                    lambda: side.followed not in (killed[side.source], -1), "another node is read"
                )
                asker = askers[side.source]
                assert asker.answers, "no question was answered"
                assert not asker.faults, asker.faults

            self._step("fail over", check)

    def _delete(self, *acls: Acl) -> None:
        deleted = self._cluster.delete(*map(exact_filter, acls))
        if {*deleted} != {*acls}:
            raise RigError(f"deleted {deleted}: expected {acls}")


def _reading(topic: str, user: str = ASKER) -> Acl:
    return acl(f"User:{user}", "READ", topic=topic)
