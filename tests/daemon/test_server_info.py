"""What an authorizer learns about the server that it runs in."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from authorizerd.actors.published import Published
from authorizerd.config.configuration import parse
from authorizerd.config.values import SecurityProtocol
from authorizerd.daemon.components import DaemonServices
from authorizerd.daemon.endpoints import new_cluster, new_server_info
from authorizerd.daemon.loading import load_log
from authorizerd.daemon.net.binding import bind, bind_unix
from tests.support.acls import snapshot_of

LINES = """node.id=7
log.dirs=/log
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://[2001:db8::1]:19092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
authorizerd.decision.http=http://127.0.0.1:0
authorizerd.decision.stream=unix:STREAM
"""


async def test_endpoints_have_their_protocols_and_advertised_addresses(tmp_path: Path) -> None:
    """The text of an endpoint is its address. An unknown cluster id is empty."""
    path = tmp_path / "stream"
    configuration = parse(LINES.replace("STREAM", str(path)), source="test")
    with (
        closing(await bind("127.0.0.1", 0, "key")) as http,
        closing(await bind_unix(path, "key")) as stream,
    ):
        bound = {"decision_http": http, "decision_stream": stream}
        info = new_server_info(configuration, new_cluster(configuration, "", bound, "host"), bound)
        assert info.endpoints == {
            "decision_http": f"127.0.0.1:{http.port}",
            "decision_stream": f"unix:{path}",
            "PLAINTEXT": "[2001:db8::1]:19092",
            "CONTROLLER": "127.0.0.1:9093",
        }
        brokers = info.endpoints["PLAINTEXT"]
        assert (brokers.listener_name, brokers.security_protocol) == ("PLAINTEXT", "PLAINTEXT")
        assert (brokers.host, brokers.port, brokers.path) == ("2001:db8::1", 19092, None)
        assert info.endpoints["decision_stream"].path == str(path)
        assert {each.security_protocol for each in info.endpoints.values()} == {
            SecurityProtocol.PLAINTEXT
        }
        assert (info.cluster_id, info.node_id) == ("", 7)


class Following:
    """The parts of a daemon, whose cluster becomes known while it loads."""

    def __init__(self, known_at_start: str) -> None:
        self.events: list[str] = []
        self.cluster_id = known_at_start
        self.snapshot = Published(snapshot_of())

    async def load(self) -> None:
        await trio.lowlevel.checkpoint()
        self.cluster_id = "cluster"

    def complete_initial_load(self) -> None:
        self.events.append("loaded")

    @property
    def parts(self) -> DaemonServices:
        learning = SimpleNamespace(learn_cluster_id=self.events.append)
        found: Any = SimpleNamespace(
            origin=self,
            applier=self,
            authorizer=learning,
            standard=self,
            settings=SimpleNamespace(refresh=lambda: None),
            workers=None,
            query_process=SimpleNamespace(feed=None, begin=lambda: None),
        )
        return cast(DaemonServices, found)


@pytest.mark.parametrize(
    ("known_at_start", "events"), [("", ["cluster", "loaded"]), ("cluster", ["loaded"])]
)
async def test_cluster_id_is_known_before_loading(known_at_start: str, events: list[str]) -> None:
    """If it was known at the start, ``ServerInfo`` has it."""
    following = Following(known_at_start)
    await load_log(following.parts)
    assert following.events == events
