"""A log, a configuration and a daemon's Kafka port give the same answers."""

import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from authorizerd.cli.main import main
from tests.support.acls import KNOWN_SETTINGS
from tests.support.daemon_process import SECONDS_MAX, new_log, running
from tests.support.forked_command import start_command
from tests.support.printed import run_main
from tests.support.sockets import accepting

ADDITIONS = (
    "--allow-principal User:alice --operation Read --topic orders",
    "--allow-principal User:bob --operation All --topic orders --resource-pattern-type prefixed",
    "--deny-principal User:bob --deny-host 10.0.0.9 --operation Write --topic orders-1",
    "--allow-principal User:* --allow-host 10.0.0.7 --operation Describe --topic status",
    "--allow-principal User:ops --operation Alter --cluster",
)
QUESTIONS = (
    "explain --principal User:alice --operation read --topic orders",
    "explain --principal User:bob --operation write --topic orders-1 --host 10.0.0.9",
    "explain --principal User:root --operation write --topic any",
    "who-can write --topic orders-1",
    "what-can User:bob",
    "can User:bob --topic orders-1 --host 10.0.0.9",
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """Run a daemon with ACLs, and yield the flags of each source."""
    folder = tmp_path_factory.mktemp("sources")
    log_dir = new_log(folder)
    users = "User:ANONYMOUS;User:root"
    with running(folder, log_dir, super_users=users) as daemon:
        address = daemon.ready["listeners"]["PLAINTEXT"]
        for words in ADDITIONS:
            assert main(["acls", "--bootstrap-server", address, "--add", *words.split()]) == 0
        yield {
            "log": [*KNOWN_SETTINGS, "--log-dir", str(log_dir), "--super-users", users],
            "configuration": ["--config", str(folder / "server.properties")],
            "broker": ["--bootstrap-server", address],
        }


@pytest.mark.parametrize("words", QUESTIONS)
def test_every_source_gives_the_same_answer(sources: dict[str, list[str]], words: str) -> None:
    """Only the line that names the ACLs, the settings' origin and the commands' address differ."""
    address = sources["broker"][1]
    found = {}
    for name, flags in sources.items():
        printed = run_main(*words.split(), *flags, code=3 if words == QUESTIONS[1] else 0)
        *lines, settings = printed.out.replace(address, "HOST:PORT").splitlines()
        assert "super.users=User:ANONYMOUS;User:root (" in settings
        origins = [line for line in lines if line.startswith(("at log offset ", "as listed by "))]
        assert len(origins) == 1
        found[name] = [line for line in lines if line not in origins]
    assert found["log"] == found["configuration"] == found["broker"]
    assert found["log"]


def test_daemon_tells_its_settings(sources: dict[str, list[str]]) -> None:
    *_, listing, settings = run_main(
        "who-can", "read", "--topic", "orders", *sources["broker"]
    ).out.splitlines()
    address = sources["broker"][1]
    assert listing == f"as listed by {address}, with 5 ACLs"
    assert settings == (
        f"with super.users=User:ANONYMOUS;User:root (broker {address}), "
        f"allow.everyone.if.no.acl.found=false (broker {address})"
    )


def test_closed_port_is_named_with_the_remedy() -> None:
    printed = run_main(*QUESTIONS[0].split(), "--bootstrap-server", "127.0.0.1:1", code=1)
    assert printed.out == ""
    assert printed.err.startswith(
        "authorizerd: --bootstrap-server 127.0.0.1:1: Connection refused\n"
    )
    assert "check that the server runs" in printed.err
    assert "Traceback" not in printed.err


def test_http_port_is_named_in_one_line() -> None:
    with accepting(answer_http) as address:
        printed = run_main(*QUESTIONS[0].split(), "--bootstrap-server", address, code=1)
    assert printed.err == (
        f"authorizerd: --bootstrap-server {address}: this is an HTTP port, not a Kafka listener: "
        "name an address of its listeners\n"
    )


def answer_http(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_interrupt_ends_a_command_that_waits_for_a_broker() -> None:
    """Otherwise Python would print where each task was interrupted."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = start_command(
            [*QUESTIONS[0].split(), "--bootstrap-server", address], stderr=subprocess.PIPE
        )
        silent.settimeout(SECONDS_MAX)
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=SECONDS_MAX)
    assert command.returncode == -signal.SIGINT
    assert errors == ""
