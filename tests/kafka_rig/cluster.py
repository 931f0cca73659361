"""Run a cluster on 127.0.0.1: separate controllers, which are dynamic voters, and brokers.

**Invariant:** each node is a process of its own, which is controlled by its process id alone. When
the cluster is closed, all have ended.

Source: KIP-853 for dynamic voters; Kafka 4.3 StorageTool, MetadataQuorumCommand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from authorizerd.acl.model import Acl, AclFilter
from tests.kafka_rig.admin import Admin, NotControllerError, Quorum
from tests.kafka_rig.broker import ADMIN, CLUSTER_ID, Ports
from tests.kafka_rig.cluster_settings import GRANTS, ClusterSettings
from tests.kafka_rig.member import Member, new_member
from tests.kafka_rig.properties import (
    HOST,
    client_properties,
    find_lasting_ports,
    write_properties,
)
from tests.kafka_rig.rig import Output, Program, Rig, RigError

FIRST_CONTROLLER: Final = 1
FIRST_BROKER: Final = 101
WAIT_SECONDS_MAX: Final = 60.0

_POLL_SECONDS: Final = 0.05

T = TypeVar("T")


class Cluster:
    """A cluster whose nodes are controlled one by one; see ``running_cluster``.

    Args:
        directory: for the nodes' directories, below it.

    Methods that run Kafka's tools raise RigError if the tool fails.
    """

    def __init__(self, rig: Rig, directory: Path, settings: ClusterSettings) -> None:
        self.rig = rig
        self.directory = directory
        self.settings = settings
        self.members: dict[int, Member] = {}
        for node_id in range(FIRST_CONTROLLER, FIRST_CONTROLLER + settings.controllers):
            self._add_member(node_id, is_controller=True)
        for node_id in range(FIRST_BROKER, FIRST_BROKER + settings.brokers):
            self._add_member(node_id, is_controller=False)

    @property
    def controllers(self) -> list[Member]:
        return [each for each in self.members.values() if each.is_controller]

    @property
    def brokers(self) -> list[Member]:
        return [each for each in self.members.values() if not each.is_controller]

    @property
    def bootstrap_controllers(self) -> str:
        """The addresses of all controllers, for ``controller.quorum.bootstrap.servers``."""
        return ",".join(each.controller for each in self.controllers)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for clients that log in with SASL PLAIN."""
        return ",".join(each.sasl_plaintext for each in self.brokers)

    def format(self) -> None:
        """Format all directories: the first with kafka-storage, the others from it.

        kafka-storage writes the same files for every voter, except for the ids.
        """
        for member in self.members.values():
            member.write_config(self.settings, self.bootstrap_controllers)
        first, *others = self.controllers
        voters = ",".join(
            f"{each.node_id}@{each.controller}:{each.directory_id}" for each in self.controllers
        )
        self._format(first, "--initial-controllers", voters)
        for member in (*others, *self.brokers):
            member.copy_format(first)

    def start_all(self) -> None:
        """Start all nodes, wait until they are ready, and create the first ACLs."""
        for member in self.controllers:
            member.process.start()
        for member in self.controllers:
            member.process.wait_until_ready()
        for member in self.brokers:
            member.process.start()
        for member in self.brokers:
            member.process.wait_until_ready()
        self.create(*GRANTS)

    def close(self) -> None:
        """Kill all nodes: nothing of them is used again, and a controlled shutdown takes long."""
        for member in self.members.values():
            member.process.kill()

    def kill(self, node_id: int) -> None:
        """End a node with SIGKILL."""
        self.members[node_id].process.kill()

    def stop(self, node_id: int) -> None:
        """End a node with SIGTERM."""
        self.members[node_id].process.stop()

    def start(self, node_id: int, *, waits: bool = True) -> None:
        """Start a node that has ended, with the current addresses of all controllers."""
        member = self.members[node_id]
        member.write_config(self.settings, self.bootstrap_controllers)
        member.process.start()
        if waits:
            member.process.wait_until_ready()

    def restart_with(self, node_id: int, rig: Rig) -> None:
        """Stop a node, and start it on the same data with the release of ``rig``."""
        self.stop(node_id)
        self.members[node_id].process.rig = rig
        self.start(node_id)

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP: the node's connections stay open, and it answers nothing."""
        self.members[node_id].process.pause()

    def resume(self, node_id: int) -> None:
        """Send SIGCONT."""
        self.members[node_id].process.resume()

    def move(self, node_id: int) -> None:
        """Restart a node on new ports. A controller then tells the leader (KIP-853, UpdateVoter).

        The node is killed, since a broker that no longer finds the controllers ends only after
        minutes.
        """
        self.kill(node_id)
        self.members[node_id].ports = Ports(*find_lasting_ports(3))
        self.start(node_id)

    def add_controller(self) -> int:
        """Start one more controller, make it a voter, and return its id."""
        node_id = max(each.node_id for each in self.controllers) + 1
        member = self._add_member(node_id, is_controller=True)
        member.write_config(self.settings, self.bootstrap_controllers)
        self._format(member, "--no-initial-controllers")
        member.process.start()
        member.process.wait_until_ready()
        self._await_caught_up(node_id)
        settings = member.config.read_text(encoding="ascii")
        config = member.directory / "add-controller.properties"
        write_properties(config, self._login(ADMIN))
        config.write_text(settings + config.read_text(encoding="ascii"), encoding="ascii")
        _demand(
            self.rig.run(
                Program.METADATA_QUORUM, "--bootstrap-controller", self._others(node_id),
                "--command-config", config, "add-controller",
            )
        )  # fmt: skip
        self.wait_for(lambda: node_id in self.quorum().voters, f"{node_id} is a voter")
        return node_id

    def add_broker(self) -> int:
        """Start one more broker, wait until it is ready, and return its id."""
        node_id = max((each.node_id for each in self.brokers), default=FIRST_BROKER - 1) + 1
        member = self._add_member(node_id, is_controller=False)
        member.copy_format(self.controllers[0])
        self.start(node_id)
        return node_id

    def remove_controller(self, node_id: int) -> None:
        """Make a controller a voter no longer, then end it."""
        member = self.members[node_id]
        _demand(
            self.rig.run(
                Program.METADATA_QUORUM, "--bootstrap-controller", self._others(node_id),
                "--command-config", self.client_config(ADMIN), "remove-controller",
                "--controller-id", str(node_id), "--controller-directory-id", member.directory_id,
            )
        )  # fmt: skip
        self.stop(node_id)
        del self.members[node_id]

    def run(self, program: Program, *arguments: str, user: str = ADMIN) -> Output:
        """Run one of Kafka's tools against the brokers."""
        return self.rig.run(
            program, "--bootstrap-server", self.bootstrap_servers,
            "--command-config", self.client_config(user), *arguments,
        )  # fmt: skip

    def client_config(self, user: str) -> Path:
        """Write the configuration of a client that logs in as ``user``; return its path."""
        path = self.directory / f"{user}.properties"
        write_properties(path, self._login(user))
        return path

    def admin(self, node_id: int, user: str = ADMIN, client_host: str = HOST) -> Admin:
        """Connect to a node as ``user``, from an address of 127.0.0.0/8.

        Raises:
            OSError: nothing listens there.
            RigError: authentication was refused.
        """
        password = self.settings.node.users[user]
        return Admin(self.members[node_id].address, user, password, client_host)

    def create(self, *acls: Acl) -> None:
        """Create ACLs with one request to the leader.

        Raises:
            RigError: an ACL was refused, or the connection broke before the answer.
        """
        self._ask_leader(lambda admin: admin.create(acls))

    def delete(self, *filters: AclFilter) -> list[Acl]:
        """Delete the matching ACLs with one request to the leader; return them.

        Raises:
            RigError: as ``create``.
        """
        return self._ask_leader(lambda admin: admin.delete(filters))

    def quorum(self) -> Quorum:
        """Return the quorum's state as its leader knows it.

        Raises:
            RigError: no controller is the leader within a minute.
        """
        give_up = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < give_up:
            for member in self.controllers:
                if member.process.can_answer:
                    with suppress(OSError, RigError), self.admin(member.node_id) as admin:
                        return admin.describe_quorum()
            time.sleep(_POLL_SECONDS)
        raise RigError(f"no leader in {WAIT_SECONDS_MAX:g} s")

    def find_leader(self) -> int:
        """Return the leader's id; wait for an election if necessary."""
        return self.quorum().leader_id

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until ``holds`` returns True.

        Raises:
            RigError: it did not within a minute; the text has ``what``.
        """
        give_up = time.monotonic() + WAIT_SECONDS_MAX
        while not holds():
            if time.monotonic() > give_up:
                raise RigError(f"not in {WAIT_SECONDS_MAX:g} s: {what}")
            time.sleep(_POLL_SECONDS)

    def _ask_leader(self, send: Callable[[Admin], T]) -> T:
        """Send a request to the leader, and again only if it was certainly not applied."""
        give_up = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < give_up:
            leader_id = self.find_leader()
            with (
                suppress(NotControllerError, ConnectionRefusedError),
                self.admin(leader_id) as admin,
            ):
                return send(admin)
            time.sleep(_POLL_SECONDS)
        raise RigError(f"no active controller in {WAIT_SECONDS_MAX:g} s")

    def _await_caught_up(self, node_id: int) -> None:
        """Wait until a controller that is not a voter has read the log."""

        def is_caught_up() -> bool:
            quorum = self.quorum()
            return quorum.observers.get(node_id, -1) >= quorum.high_watermark

        self.wait_for(is_caught_up, f"controller {node_id} has read the log")

    def _others(self, node_id: int) -> str:
        others = (each.controller for each in self.controllers if each.node_id != node_id)
        return ",".join(others)

    def _login(self, user: str) -> dict[str, str]:
        return client_properties(user, self.settings.node.users[user])

    def _add_member(self, node_id: int, *, is_controller: bool) -> Member:
        member = new_member(
            self.rig, self.directory, self.settings, node_id, is_controller=is_controller
        )
        self.members[node_id] = member
        return member

    def _format(self, member: Member, *arguments: str) -> None:
        _demand(
            self.rig.run(
                Program.STORAGE, "format", "--cluster-id", CLUSTER_ID, "--config", member.config,
                *arguments,
            )
        )  # fmt: skip
        member.read_directory_id()


@contextmanager
def running_cluster(
    rig: Rig, directory: Path, settings: ClusterSettings | None = None
) -> Iterator[Cluster]:
    """Format and run a new cluster until the block ends.

    Raises:
        RigError: a node did not become ready; the text has its first errors.
    """
    cluster = Cluster(rig, directory, settings or ClusterSettings())
    try:
        cluster.format()
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


def _demand(output: Output) -> None:
    if output.exit_code:
        raise RigError(f"exit code {output.exit_code}: {output.stdout}{output.stderr}")
