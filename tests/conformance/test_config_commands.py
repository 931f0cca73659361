"""kafka-configs prints the same for a broker and for our daemon."""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kafka_rig.broker import ADMIN, Broker
from tests.kafka_rig.properties import client_properties, write_properties
from tests.kafka_rig.rig import Output, Program, Rig
from tests.support.daemon_process import new_log, running

Run = Callable[[str, Sequence[str]], Output]
"""Runs kafka-configs as a user."""

BOB = "bob"
NODE = ("--entity-type", "brokers", "--entity-name", "1")
EVERY_NODE = ("--entity-type", "brokers", "--entity-default")
SET_OF_NODE = "max.connections=500"
SET_OF_EVERY_NODE = "max.connections=400"
USERS = ("--entity-type", "users")
CAROL = (*USERS, "--entity-name", "carol")
ZOE = (*USERS, "--entity-name", "zoé")
COMMANDS: tuple[tuple[str, Sequence[str]], ...] = (
    (ADMIN, ("--describe", *NODE)),
    (ADMIN, ("--alter", *NODE, "--add-config", SET_OF_NODE)),
    (ADMIN, ("--alter", *EVERY_NODE, "--add-config", SET_OF_EVERY_NODE)),
    (ADMIN, ("--describe", *NODE)),
    (ADMIN, ("--describe", *EVERY_NODE)),
    (ADMIN, ("--describe", "--all", *NODE)),
    (ADMIN, ("--alter", *NODE, "--add-config", "node.id=7")),
    (ADMIN, ("--alter", *NODE, "--add-config", "max.connections=many")),
    (ADMIN, ("--alter", *NODE, "--delete-config", "max.connections")),
    (ADMIN, ("--describe", *NODE)),
    (ADMIN, ("--alter", *EVERY_NODE, "--delete-config", "max.connections")),
    (ADMIN, ("--alter", *NODE, "--delete-config", "max.connections")),
    (ADMIN, ("--describe", *EVERY_NODE)),
    (BOB, ("--describe", *NODE)),
    (BOB, ("--alter", *NODE, "--add-config", SET_OF_NODE)),
    (ADMIN, ("--alter", *CAROL, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=x]")),
    (ADMIN, ("--alter", *CAROL, "--add-config", "SCRAM-SHA-512=[password=x]")),
    (ADMIN, ("--alter", *ZOE, "--add-config", "SCRAM-SHA-512=[iterations=16384,password=y]")),
    (ADMIN, ("--alter", *CAROL, "--add-config", "SCRAM-SHA-256=[iterations=16385,password=x]")),
    (ADMIN, ("--describe", *CAROL)),
    (ADMIN, ("--describe", *USERS)),
    (ADMIN, ("--alter", *CAROL, "--delete-config", "SCRAM-SHA-256")),
    (ADMIN, ("--alter", *CAROL, "--delete-config", "SCRAM-SHA-256")),
    (ADMIN, ("--describe", *CAROL)),
    (ADMIN, ("--describe", *USERS, "--entity-name", "nobody")),
    (BOB, ("--describe", *CAROL)),
    (BOB, ("--alter", *CAROL, "--delete-config", "SCRAM-SHA-512")),
)
_DEFAULT = re.compile(r"DEFAULT_CONFIG:max\.connections=\d+")
_ARGUMENTS = re.compile(r"with args '.*'")
_REASON = re.compile(r"(Invalid value many for configuration max\.connections: ).*")
_REQUEST = re.compile(r"Request Request\(.*")
_FRAME = re.compile(r"\t(at |\.\.\. )")
_NOT_OURS = "  min.insync.replicas="  # Kafka's controller sets it for every node
_COMPARED_OF_ALL = ("All configs for broker ", "  max.connections=", "  node.id=")


def comparable(arguments: Sequence[str], output: Output) -> tuple[int, list[str]]:
    """Return the exit code and the part of the output that both sides must share.

    The rest is left out: defaults, reasons for invalid values, addresses, stack frames, requests
    printed as Java objects, and keys that one side does not have.
    """
    said = _DEFAULT.sub("DEFAULT_CONFIG:max.connections=default", output.stdout + output.stderr)
    said = _REQUEST.sub("Cluster authorization failed.", said)
    said = _REASON.sub(r"\1", _ARGUMENTS.sub("", said))
    lines = [
        line
        for line in said.splitlines()
        if not line.startswith(_NOT_OURS) and not _FRAME.match(line)
    ]
    if "--all" in arguments:
        lines = [line for line in lines if line.startswith(_COMPARED_OF_ALL)]
    if USERS[1] in arguments:  # Kafka lists users and mechanisms in no particular order
        lines = sorted(",".join(sorted(re.split(" are |, ", line))) for line in lines)
    return output.exit_code, lines


@pytest.fixture
def ours(rig: Rig, tmp_path: Path) -> Iterator[Run]:
    """Return a function that runs kafka-configs on our daemon."""
    users = "".join(f' user_{name}="{name}-secret"' for name in (ADMIN, BOB))
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "super.users": f"User:{ADMIN}",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{plain} required{users};",
    }
    with running(tmp_path, new_log(tmp_path), config) as daemon:

        def run(user: str, arguments: Sequence[str]) -> Output:
            client = tmp_path / f"{user}.properties"
            write_properties(client, client_properties(user, f"{user}-secret"))
            address = daemon.ready["listeners"]["SASL_PLAINTEXT"]
            connection = ("--bootstrap-server", address, "--command-config", client)
            return rig.run(Program.CONFIGS, *connection, *arguments)

        yield run


def test_kafka_configs_prints_the_same(broker: Broker, ours: Run) -> None:
    """They change configs of one node and of all, and SCRAM credentials; some are invalid."""

    def theirs(user: str, arguments: Sequence[str]) -> Output:
        return broker.run(Program.CONFIGS, *arguments, user=user)

    def run_all(run: Run) -> list[Output]:
        return [run(*command) for command in COMMANDS]

    with ThreadPoolExecutor() as pool:
        expected, answered = pool.map(run_all, (theirs, ours))
    for (user, arguments), their, our in zip(COMMANDS, expected, answered, strict=True):
        assert comparable(arguments, our) == comparable(arguments, their), (user, arguments)
    assert expected[1].stdout == "Completed updating config for broker 1.\n"
