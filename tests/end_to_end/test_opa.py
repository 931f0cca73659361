"""OPA's data API of a real daemon, as Kafka's plugin uses it, with and without tokens."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.daemon.opa_requests import PATH, asked
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
