"""Every call of the Python admin clients, with every security protocol and mechanism.

``make conformance`` adds Kafka's own clients and prints the matrix.
"""

from collections.abc import Iterator

import pytest

from tests.client_matrix.calls import Call, Open, Protocol
from tests.client_matrix.checks import NOT_OFFERED, OK, check_cell
from tests.client_matrix.clients import PYTHON_CLIENTS
from tests.client_matrix.servers import Servers, running_servers


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with running_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.mark.parametrize("call", Call)
@pytest.mark.parametrize("protocol", Protocol)
@pytest.mark.parametrize("open_client", PYTHON_CLIENTS.values(), ids=PYTHON_CLIENTS)
def test_client_call_has_its_effect_and_needs_its_right(
    servers: Servers,
    open_client: Open,
    protocol: Protocol,
    call: Call,
    request: pytest.FixtureRequest,
) -> None:
    topic = f"{request.node.callspec.id}-topic"
    outcome = check_cell(call, servers.of(open_client, protocol), topic)
    assert outcome == OK or outcome.startswith(NOT_OFFERED)
