"""OPA's data API of a real daemon, as Kafka's plugin uses it, with and without tokens."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.daemon.opa_requests import CAPTURED_BODY, CAPTURED_HEAD, PATH, asked
from tests.support import daemon_process
from tools.example.log import write_log

TRUE, FALSE = b'{"result":true}', b'{"result":false}'
JSON = {"Content-Type": "application/json"}
READ_ORDERS = (
    ("requestContext.principal", {"principalType": "User", "name": "alice"}),
    ("action.operation", "READ"),
    ("action.resourcePattern.name", "orders"),
)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    write_log(tmp_path / "log")
    return tmp_path / "log"


def question(
    daemon: daemon_process.DaemonProcess, *changes: tuple[str, Any], query: str = ""
) -> daemon_process.Answer:
    body = json.dumps(asked(*READ_ORDERS, *changes)).encode()
    return daemon_process.ask(daemon.decision, "POST", f"{PATH}{query}", body, JSON)


def add_token(path: Path, principal: str, token_id: str) -> str:
    token, line = new_token(token_id, principal, os.urandom(SECRET_BYTES))
    with path.open("a") as file:
        file.write(f"{line}\n")
    return token


def receive_answer(connection: socket.socket) -> bytes:
    received = b""
    while b"}" not in received:
        data = connection.recv(65536)
        assert data, received
        received += data
    return received


def test_captured_request_of_the_plugin_is_answered(tmp_path: Path, log_dir: Path) -> None:
    """It asks for h2c. Several requests use one connection, and each is audited."""
    audit = tmp_path / "audit.log"
    with daemon_process.running(tmp_path, log_dir, authorizerd_audit_log=str(audit)) as daemon:
        host, _, port = daemon.ready["decision_http"].rpartition(":")
        with socket.create_connection((host, int(port)), daemon_process.SECONDS_MAX) as connection:
            for _ in range(3):
                connection.sendall(CAPTURED_HEAD)
                connection.sendall(CAPTURED_BODY)
                answer = receive_answer(connection)
                assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                assert answer.endswith(b"\r\n\r\n" + FALSE)
        assert question(daemon).body == TRUE
        assert question(daemon, ("action.operation", "FLY")).status == 400
        assert daemon.metric('authorizerd_decisions_total{result="denied",surface="OPA"}') == 3
        assert daemon.metric('authorizerd_decisions_total{result="allowed",surface="OPA"}') == 1
        assert daemon_process.ask(daemon.decision, "GET", "/health").status == 200
        assert daemon.stop()[0] == 0
    (first, *_) = lines = audit.read_text().splitlines()
    assert len(lines) == 3
    assert (
        "Principal = User:u1 is Denied operation = DESCRIBE from host = 192.168.64.1"
        " on resource = Topic:LITERAL:topic-1 for request = Metadata with resourceRefCount = 1"
    ) in first


def test_reload_applies_tokens_and_configuration_together(tmp_path: Path, log_dir: Path) -> None:
    """If one of the two files is invalid, neither is applied."""
    tokens = tmp_path / "tokens"
    old = add_token(tokens, "User:alice", "old")
    config = {"authorizerd.tokens.file": str(tokens)}
    with daemon_process.running(tmp_path, log_dir, config) as daemon:
        assert question(daemon, query=f"?token={old}").body == TRUE
        good = tokens.read_text()
        eve = ("requestContext.principal", {"principalType": "User", "name": "eve"})
        tokens.write_text(f"{good}nonsense\n")
        daemon_process.write_config(tmp_path, log_dir, config, super_users="User:alice")
        daemon.reload(f"is not reloaded: {tokens}:2: ")
        assert question(daemon, query=f"?token={old}").body == TRUE
        assert question(daemon, eve, query=f"?token={old}").status == 403

        tokens.write_text("# nobody\n")
        new = add_token(tokens, "User:alice", "new")
        daemon_process.write_config(tmp_path, log_dir, config, super_users="alice")
        daemon.reload("is not reloaded: ")
        assert question(daemon, query=f"?token={old}").body == TRUE
        assert question(daemon, query=f"?token={new}").status == 401

        daemon_process.write_config(tmp_path, log_dir, config, super_users="User:alice")
        daemon.reload()
        assert question(daemon, query=f"?token={old}").status == 401
        assert question(daemon, eve, query=f"?token={new}").body == FALSE
        assert daemon.stop()[0] == 0
