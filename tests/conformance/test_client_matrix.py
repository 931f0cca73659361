"""Common admin clients with our daemon: the matrix of docs/conformance.md.

**Invariant:** each result that a client reports is checked in the daemon. Only the calls that a
client does not offer are left out, and the matrix names them.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from tests.client_matrix.calls import AdminClient, Call, Open, Protocol
from tests.client_matrix.checks import NOT_OFFERED, OK, check_cell
from tests.client_matrix.clients import PYTHON_CLIENTS, python_versions
from tests.client_matrix.servers import Servers, running_servers
from tests.client_matrix.table import Matrix
from tests.conformance.java_client import JavaClient, running_peer
from tests.conformance.kafka_tools_client import KafkaAclsTool, KafkaConfigsTool
from tests.kafka_rig.rig import VERSION, Rig

CLIENTS: Mapping[str, type[AdminClient]] = {
    "kafka-acls": KafkaAclsTool,
    "kafka-configs": KafkaConfigsTool,
    "Java AdminClient": JavaClient,
    **PYTHON_CLIENTS,
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with running_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="module")
def openers(rig: Rig, matrix: Matrix) -> Iterator[Mapping[str, Open]]:
    """Return how to open each client, by name."""
    versions = python_versions()
    for name, client in CLIENTS.items():
        matrix.add_client(name, versions.get(name, VERSION), client)
    with running_peer(rig) as peer:
        yield {
            "kafka-acls": partial(KafkaAclsTool, peer),
            "kafka-configs": partial(KafkaConfigsTool, peer),
            "Java AdminClient": partial(JavaClient, peer),
            **PYTHON_CLIENTS,
        }


@pytest.mark.parametrize("call", Call)
@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_call_has_its_effect_and_needs_its_right(
    servers: Servers,
    openers: Mapping[str, Open],
    matrix: Matrix,
    client: str,
    protocol: Protocol,
    call: Call,
) -> None:
    topic = f"{client}-{protocol}-{call}-topic".replace(" ", "-")
    outcome = "failed"
    try:
        outcome = check_cell(call, servers.of(openers[client], protocol), topic)
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}".splitlines()[0]
        raise
    finally:
        matrix.record(client, protocol, call, outcome)
    assert outcome == OK or outcome.startswith(NOT_OFFERED)
