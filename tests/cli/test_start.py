"""What each command loads before it does anything.

A start takes as long as its imports. So these tests list the slow modules that a command may load,
instead of timing it.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.support.daemon_process import new_log, write_config
from tests.support.programs import output_of, run_program
from tests.support.sizes import size

SLOW = frozenset(
    (
        "authorizerd.daemon.origins.followed_cluster",  # only for a daemon that follows a cluster
        "authorizerd.config.java_regex.translation",  # only for ssl.principal.mapping.rules
        "cryptography",
        "immutables",
        "jinja2",  # only for the console
        "kazoo",  # only for zookeeper://
        "kio",  # only for tests
        "msgspec",
        "prometheus_client",
        "pyarrow",
        "pyspark",
        "ssl",
        "trio",
        "yaml",
    )
)
"""Packages that take several milliseconds each; some take hundreds."""
VALUES = frozenset(("immutables", "msgspec"))
"""What ACLs and settings are made of."""
LOOP = frozenset(("ssl", "trio"))
MESSAGES = frozenset(("prometheus_client",))
"""What only a daemon needs."""
TLS = frozenset(("authorizerd.config.java_regex.translation", "cryptography"))

LOADED = re.compile(r"^import time: .*\| +(\S+)$", re.MULTILINE)


def loaded(words: str, module: str = "authorizerd.cli") -> set[str]:
    """Return the slow packages that the command loads."""
    done = run_program(sys.executable, "-X", "importtime", "-m", module, *words.split(), text="")
    names = set(LOADED.findall(done.stderr))
    assert "authorizerd" in names
    assert "Traceback" not in done.stderr
    return names & SLOW


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    log_dir = new_log(tmp_path)
    broker = tmp_path / "broker.properties"
    broker.write_text("controller.quorum.bootstrap.servers=c:1\ncontroller.listener.names=C\n")
    policy, listing = tmp_path / "policy.yaml", tmp_path / "acls.txt"
    policy.write_text("tests: [nobody may READ any topic]")
    listing.touch()
    (tmp_path / "unformatted").mkdir()
    impatient = tmp_path / "impatient.properties"
    impatient.write_text("zookeeper.connection.timeout.ms=100\n")
    return {
        "config": write_config(tmp_path, log_dir),
        "unformatted": write_config(tmp_path / "unformatted", tmp_path / "unformatted"),
        "log": log_dir, "broker": broker, "policy": policy, "listing": listing,
        "impatient": impatient, "out": tmp_path / "out.checkpoint",
    }  # fmt: skip


STARTS = [
    ("--help", set()),
    ("--version", set()),
    ("no-such-command", set()),
    ("serve --help", {"msgspec"}),
    ("token --help", {"msgspec"}),
    ("token --principal User:a", {"msgspec"}),
    ("import-config {broker}", VALUES),
    ("reset-copy --config {config}", VALUES),
    ("format --help", VALUES),
    ("backup --help", VALUES),
    ("backup --log-dir {log} {out}", VALUES),
    ("restore --help", VALUES),
    ("features --help", VALUES),
    ("format --config {config}", VALUES),
    ("verify --help", VALUES),
    ("verify --logs {listing} --log-dir {log}", VALUES),
    ("review --help", VALUES),
    ("explain --help", VALUES),
    ("explain --log-dir {log} --principal User:a --operation read --topic t", VALUES),
    ("who-can --help", VALUES),
    ("who-can read --topic t --log-dir {log}", VALUES),
    ("what-can User:a --log-dir {log}", VALUES),
    ("can User:a --topic t --log-dir {log}", VALUES),
    ("history --principal User:a --log-dir {log}", VALUES),
    ("explain --bootstrap-server 127.0.0.1 --principal User:a --operation read --topic t",
     VALUES | LOOP),
    ("routes preset", {"msgspec"}),
    ("test --help", VALUES),
    ("test {policy} --acls {listing}", VALUES | {"yaml"}),
    ("sync --help", VALUES),
    ("shell --help", VALUES),
    ("shell --log-dir {log} ls", VALUES),
    ("shell --bootstrap-server 127.0.0.1:1 ls", VALUES | LOOP),
    ("docs", {"msgspec"}),
    ("docs backup", {"msgspec"}),
    ("check-log --help", VALUES),
    ("check-log {log}", VALUES),
    ("doctor --help", VALUES),
    ("doctor --config {log}/none", VALUES),
    ("doctor --config {config}", VALUES | LOOP),
    # A worker needs neither Kafka's messages nor the metrics: a third of its memory.
    ("worker --feed-fd 0", VALUES | LOOP | TLS),
    ("acls --help", {"msgspec"}),
    ("acls --list --log-dir {log}", VALUES),
    ("acls --list --bootstrap-server 127.0.0.1:1", VALUES | LOOP),
    ("acls plan --help", VALUES),
    ("acls apply --help", {"msgspec"}),
    ("acls remove --help", VALUES),
    ("acls grant --help", VALUES),
    ("acls grants --acls {listing}", VALUES),
    ("acls plan {listing} --log-dir {log}", VALUES),
    ("acls plan {listing} --log-dir {log} --traffic {listing}", VALUES),
    ("acls compare-releases --help", VALUES),
    ("acls compare-releases --acls {listing}", VALUES),
    ("acls export --help", VALUES),
    ("acls export --log-dir {log} --format listing", VALUES),
    ("acls import {listing} --log-dir {log}", VALUES),
    ("acls import zookeeper://none: --log-dir {log}", VALUES),
    ("acls import zookeeper://127.0.0.1:1 --log-dir {log} --command-config {impatient}",
     VALUES | {"kazoo", "ssl"}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), STARTS[:: size(3, 1)])
def test_command_loads_only_what_it_needs(
    places: dict[str, Path], words: str, expected: set[str]
) -> None:
    assert loaded(words.format(**places)) == expected


def test_own_log_needs_no_client_of_a_cluster(places: dict[str, Path]) -> None:
    """The start fails, but only after the daemon has loaded its parts."""
    assert loaded(f"serve --config {places['unformatted']}") == VALUES | LOOP | TLS | MESSAGES


@pytest.mark.parametrize(("words", "expected"), [
    ("--help", set()),
    ("ingest --help", VALUES),
    ("whatif --help", VALUES),
    ("usage --help", VALUES),
    ("load --help", VALUES | {"ssl"}),
    ("report --help", VALUES),
])  # fmt: skip
def test_replay_loads_only_what_it_needs(words: str, expected: set[str]) -> None:
    assert loaded(words, module="authorizerd.replay") == expected


@pytest.mark.parametrize(
    ("module", "is_server"),
    [("authorizerd.daemon.kafka.dispatch", True), ("authorizerd.cli.acls.remote", False)],
)
def test_only_a_server_loads_all_definitions_at_its_start(module: str, is_server: bool) -> None:
    """No request to a server may wait for them; a client needs few of them."""
    code = (
        f"import {module}\n"
        "from authorizerd.protocol.kafka.api import APIS\n"
        "from authorizerd.protocol.kafka.codec import _compile\n"
        f"wanted = sum(2 * len(each.versions) for each in APIS.values()) if {is_server} else 0\n"
        "prepared = _compile.cache_info().currsize\n"
        f"assert (prepared >= wanted) if {is_server} else prepared == 0, prepared\n"
    )
    output_of(sys.executable, "-c", code)
