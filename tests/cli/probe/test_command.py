"""``authorizerd verify --probe`` as a command, with a daemon that also stands for the brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl, Operation, ResourceType
from authorizerd.cli.main import main
from authorizerd.cli.probe.causes import Cause
from authorizerd.config.tokens import SECRET_BYTES, new_token
from tests.support.acls import acl
from tests.support.daemon_process import DaemonProcess, closed_address, running
from tests.support.fixture_types import Capture

USER = "User:ANONYMOUS"
ACLS = (
    acl(USER, topic="orders"),
    acl(USER, "ALL", group="billing"),
    acl(USER, "ALTER", cluster=True),
    acl(USER, "DELETE", topic="orders", host="10.0.0.9"),
)


def write_acls(path: Path, *acls: Acl) -> None:
    entries = [
        {
            "principal": each.principal, "host": each.host, "resource_name": each.resource_name,
            "resource_type": ResourceType(each.resource_type).name,
            "operation": Operation(each.operation).name, "permission_type": "ALLOW",
        }
        for each in acls
    ]  # fmt: skip
    path.write_text(json.dumps({"acls": entries}))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files that commands name, among them a log and the tokens of two callers."""
    place = tmp_path_factory.mktemp("probed")
    write_acls(place / "acls.yaml", *ACLS)
    write_acls(place / "more.yaml", *ACLS, acl(USER, "WRITE", topic="orders"))
    (place / "topics.txt").write_text("orders\r\n\nabsent\n")
    words = ("acls", "import", place / "acls.yaml", "--log-dir", place / "log", "--node-id", "1")
    assert main([*map(str, words)]) == 0
    lines = []
    for name in ("asker", "stranger"):
        token, line = new_token(name, f"Service:{name}", name.encode().ljust(SECRET_BYTES))
        (place / name).write_text(f"{token}\n")
        lines.append(line)
    (place / "tokens").write_text("\n".join(lines))
    return place


@pytest.fixture(scope="module")
def daemon(place: Path) -> Iterator[DaemonProcess]:
    """A daemon whose Kafka listener stands for a broker: its clients are ``User:ANONYMOUS``."""
    keys = {
        "authorizerd.tokens.file": str(place / "tokens"),
        "authorizerd.callers.ask": "Service:asker",
    }
    with running(place, place / "log", keys, super_users="User:root") as daemon:
        yield daemon


def words_of(daemon: DaemonProcess, place: Path, words: str) -> list[str]:
    broker, port = daemon.ready["listeners"]["PLAINTEXT"], daemon.ready["decision_http"]
    given = f"verify --probe --bootstrap-server {broker} --principal {USER} {words}"
    return given.format(place=place, port=port, closed=closed_address()).split()


HERE = "--host 127.0.0.1 --rate 100 --window 1s"
KNOWN = "--super-users User:root --allow-everyone-if-no-acl-found false"


@pytest.mark.parametrize("words", [
    "--daemon http://{port} --token-file {place}/asker --topics orders absent --groups billing",
    "--log-dir {place}/log " + KNOWN,
    "--acls {place}/acls.yaml " + KNOWN,
    "--config {place}/server.properties",
])  # fmt: skip
def test_cluster_agrees_with_a_daemon_and_with_acls(
    daemon: DaemonProcess, place: Path, words: str, capsys: Capture
) -> None:
    command = words_of(daemon, place, f"{words} --topics @{{place}}/topics.txt {HERE}")
    code = main([*command, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["differences"], document["not_judged"]) == (0, [], {})
    # The topic, the group and the cluster are visible; ``absent`` is not.
    assert (document["visible"], document["hidden"]) == (3, 1)
    assert (document["agreed"], document["not_visible"]) == (8 + 5 + 7 + 1, 7)
    assert main(command) == 0
    assert "differences: none\n" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "cause", "line"), [
    ("--acls {place}/more.yaml --host 127.0.0.1 " + KNOWN, Cause.BROKERS_LACK,
     "  WRITE TOPIC orders"),
    ("--log-dir {place}/log --host 10.0.0.9 " + KNOWN, Cause.HOST, "  DELETE TOPIC orders"),
    ("--log-dir {place}/log --host 127.0.0.1 --super-users User:ANONYMOUS", Cause.SUPER_USERS,
     "    here: Allowed, SuperUser"),
    ("--daemon http://{port} --token-file {place}/asker --host 10.0.0.9 --topics orders",
     Cause.HOST, "  DELETE TOPIC orders"),
])  # fmt: skip
def test_planted_fault_is_found(
    daemon: DaemonProcess, place: Path, words: str, cause: Cause, line: str, capsys: Capture
) -> None:
    assert main(words_of(daemon, place, f"{words} --rate 100 --window 1s")) == 3
    page = capsys.readouterr().out.splitlines()
    assert line in page
    assert [each.split(": ")[0] for each in page if each.startswith("differences")] == [
        f"differences, {cause}"
    ]


@pytest.mark.parametrize(("words", "error"), [
    ("--daemon http://{port}", "--daemon http://{port}: 401: "),
    ("--daemon http://{port} --token-file {place}/stranger", "--daemon http://{port}: 403: "),
    ("--daemon http://{closed}", "--daemon http://{closed}: "),
    ("--daemon https://{port}", "--daemon https://{port}: "),
    ("--daemon http://{port} --token-file {place}/none", "{place}/none: "),
    ("--daemon http://{port} --token-file {place}/empty", "{place}/empty: expected a line"),
    ("--acls {place}/none " + KNOWN, "{place}/none"),
])  # fmt: skip
def test_side_that_does_not_answer_is_a_fault(
    daemon: DaemonProcess, place: Path, words: str, error: str, capsys: Capture
) -> None:
    (place / "empty").touch()
    closed = closed_address()
    given = words.replace("{closed}", closed)
    assert main(words_of(daemon, place, f"{given} {HERE}")) == 1
    expected = error.format(port=daemon.ready["decision_http"], place=place, closed=closed)
    assert expected in capsys.readouterr().err


PROBE = "--probe --bootstrap-server b:1 --principal User:a --host 10.0.0.1"


@pytest.mark.parametrize(("words", "error"), [
    ("", "expected --logs FILE, or --probe"),
    ("--logs l --acls a --principal User:a", "--principal: expected --probe as well"),
    ("--logs l --acls a --topics t", "--topics: expected --probe as well"),
    (f"{PROBE} --acls a --logs l", "--logs: expected either --logs or --probe, found both"),
    (f"{PROBE} --acls a --broker-config b",
     "--broker-config: expected either --broker-config or --probe, found both"),
    (PROBE, "--probe: expected either --daemon, or one of --log-dir, --acls and --config"),
    (f"{PROBE} --acls a --daemon http://d:1", "--probe: expected either --daemon, or one of"),
    (f"{PROBE} --daemon d:1", "--daemon: expected http://HOST:PORT or https://HOST:PORT"),
    (f"{PROBE} --acls a --token-file t", "--token-file and --cafile: expected --daemon as well"),
    (f"{PROBE} --acls a --host h", "--host: expected an IP address, found 'h'"),
    (f"{PROBE} --acls a --principal User:*", "--principal: User:* means everyone"),
    (f"{PROBE} --acls a --max-resources 0", "--max-resources: expected a number above 0"),
    (f"{PROBE} --acls a --rate 0", "--rate: expected a number above 0"),
    (f"{PROBE} --acls a --rate x", "argument --rate: invalid float value: 'x'"),
    ("--probe --acls a", "--probe: expected --bootstrap-server as well"),
    ("--probe --acls a --bootstrap-server b:1 --principal User:a",
     "--probe: expected --host as well"),
])  # fmt: skip
def test_invalid_arguments_are_refused(words: str, error: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *words.split()])
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(("address", "warns"), [
    ("http://d.test:1", True), ("http://10.0.0.1:1", True), ("https://d.test:1", False),
    ("http://127.0.0.1:1", False), ("http://[::1]:1", False), ("http://localhost:1", False),
])  # fmt: skip
def test_token_that_travels_in_the_clear_is_warned_of(
    address: str, warns: bool, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "token").write_text("id.secret\n")
    words = f"{PROBE} --daemon {address} --token-file {tmp_path / 'token'} --rate 0"
    with pytest.raises(SystemExit):
        main(["verify", *words.split()])
    assert ("travels in the clear" in capsys.readouterr().err) is warns
