"""``acls import`` and ``acls export`` with a scripted ZooKeeper on one side, and the page."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trustme

from authorizerd.acl.model import Acl
from authorizerd.cli.main import main
from authorizerd.cli.zookeeper.session import Check, Create, Outcome, Session, SetData
from authorizerd.management.formats.catalogue import FORMATS
from authorizerd.management.formats.listing import read_listing
from authorizerd.management.zookeeper.export import Target, list_parents
from authorizerd.management.zookeeper.paths import Pattern, pattern_path
from authorizerd.management.zookeeper.znode import write_acls
from tests.end_to_end.documents import ROOT, blocks_of, commands_of
from tests.support.acls import acl
from tests.support.jute import Op
from tests.support.log_files import added, write_log
from tests.support.printed import Printed, run_main
from tests.support.scripted_zookeeper import Fate, ScriptedZooKeeper, running_zookeeper
from tests.support.zookeeper_clusters import EVENTS, read, store

ALLOW = acl("User:a", topic="orders")
SECOND = acl("User:a", topic="second")
DENY = acl("User:b", "WRITE", topic="or", pattern="PREFIXED", deny=True)
SLASH = acl("User:a", group="a/b")
SLASH_DENY = acl("User:a", group="a/b", deny=True)
KRAFT = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":1}'


def acls(*words: str | Path, code: int = 0) -> Printed:
    return run_main("acls", *words, code=code)


def log_of(tmp_path: Path, *acls: Acl) -> str:
    write_log(tmp_path / "log", [added(number, each) for number, each in enumerate(acls, 1)])
    return str(tmp_path / "log")


def test_log_is_exported_to_zookeeper_and_back(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    log, place = log_of(tmp_path, ALLOW, DENY), f"zookeeper://{cluster.address}"
    assert acls("export", "--log-dir", log, "--to", place, "--zk-open-acls") == (
        f"read 2 ACLs from {log}\n"
        f"wrote 2 ACLs to {place} (ZooKeeper)\n"
        "notified the brokers by 2 change events\n"
        f"ACLs that {log} lacks are kept: `authorizerd acls plan` also removes ACLs\n",
        "",
    )
    assert read(cluster) == {ALLOW, DENY}
    out = acls("export", "--from", place, "--to", "yaml:-").out
    assert set(FORMATS["yaml"].read(out).acls) == {ALLOW, DENY}
    printed = acls("export", "--log-dir", log, "--to", place, "--zk-open-acls", "--json")
    report = json.loads(printed.out)
    assert (report["present"], report["new"], report["written"]) == (2, 0, 0)
    assert len(cluster.data(EVENTS)) == 1


def test_zookeeper_is_imported_into_a_log(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    store(cluster, ALLOW)
    store(cluster, DENY)
    target = tmp_path / "new"
    words = ("import", f"zookeeper://{cluster.address}/", "--log-dir", target, "--node-id", "1")
    acls(*words)
    out = acls("--log-dir", target, "--list").out
    assert set(read_listing(out)) == {ALLOW, DENY}


def test_acls_of_a_real_broker_go_to_zookeeper_and_back(
    cluster: ScriptedZooKeeper, tmp_path: Path, real_log_dir: Path
) -> None:
    listing, back = real_log_dir / "acls-list.txt", tmp_path / "back.yaml"
    place = f"zookeeper://{cluster.address}"
    acls("import", listing, "--to", place, "--zk-open-acls")
    acls("import", place, "--to", back)
    expected = set(read_listing(listing.read_text(encoding="utf-8")))
    assert len(expected) == 1751
    assert set(FORMATS["yaml"].read(back.read_text(encoding="utf-8")).acls) == expected
    dump = tmp_path / "dump.jsonl"
    acls("import", place, "--to", f"zookeeper:{dump}")
    assert set(FORMATS["zookeeper"].read(dump.read_text(encoding="utf-8")).acls) == expected


def test_loss_stops_the_export_unless_accepted(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    words = ["export", "--log-dir", log_of(tmp_path, ALLOW, SLASH), "--zk-open-acls"]
    words += ["--to", f"zookeeper://{cluster.address}"]
    error = acls(*words, code=3).err
    assert "a znode's name cannot contain /" in error
    assert read(cluster) == set()
    acls(*words, "--accept-losses")
    assert read(cluster) == {ALLOW}


@pytest.mark.parametrize(
    ("lost", "flags"), [(SLASH_DENY, ()), (DENY, ("--zk-oldest-broker", "1.1"))]
)
def test_lost_denial_is_never_accepted(
    cluster: ScriptedZooKeeper, tmp_path: Path, lost: Acl, flags: tuple[str, ...]
) -> None:
    words = ["export", "--log-dir", log_of(tmp_path, ALLOW, lost), "--zk-open-acls", *flags]
    words += ["--to", f"zookeeper://{cluster.address}"]
    acls(*words, code=3)
    error = acls(*words, "--accept-losses", code=1).err
    assert "nothing was written: 1 ACL that must deny would be lost" in error
    assert read(cluster) == set()


def test_dry_run_writes_nothing(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    log, place = log_of(tmp_path, ALLOW), f"zookeeper://{cluster.address}"
    out = acls("export", "--log-dir", log, "--to", place, "--zk-open-acls", "--dry-run").out
    assert f"would write 1 ACL (0 DENY, 1 ALLOW) to {place} (ZooKeeper)" in out
    assert read(cluster) == set()
    assert not [op for op, _ in cluster.requests if op in (Op.CREATE, Op.SET_DATA)]


def test_failure_half_way_is_reported(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("zookeeper.connection.timeout.ms=3000\n")
    log, place = log_of(tmp_path, ALLOW, SECOND), f"zookeeper://{cluster.address}"
    cluster.on(Op.CREATE, "/kafka-acl/Topic/second", cluster.close)
    words = ("--to", place, "--zk-open-acls", "--to-config", config)
    out, error = acls("export", "--log-dir", log, *words, code=1)
    assert f"wrote 1 ACL to {place}" in out
    assert "no answer within 3 s" in error
    assert "1 of 2 ACLs were definitely written, each with its change event. Run the" in error


def test_interrupt_says_what_is_certain(
    cluster: ScriptedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Nothing of the second pattern is sent."""
    commit = Session.commit

    def interrupt(session: Session, operations: Sequence[Check | SetData | Create]) -> Outcome:
        if any(each.path == "/kafka-acl/Topic/second" for each in operations):
            raise KeyboardInterrupt
        return commit(session, operations)

    monkeypatch.setattr(Session, "commit", interrupt)
    log, place = log_of(tmp_path, ALLOW, SECOND), f"zookeeper://{cluster.address}"
    with pytest.raises(KeyboardInterrupt):
        main(["acls", "export", "--log-dir", log, "--to", place, "--zk-open-acls"])
    assert "interrupted: 1 of 2 ACLs were definitely written" in capsys.readouterr().err
    assert read(cluster) == {ALLOW}


def test_import_warns_that_a_kraft_controller_owns_the_cluster(
    cluster: ScriptedZooKeeper, tmp_path: Path
) -> None:
    store(cluster, ALLOW)
    cluster.put("/controller", KRAFT)
    out, error = acls("import", f"zookeeper://{cluster.address}", "--to", "yaml:-")
    assert set(FORMATS["yaml"].read(out).acls) == {ALLOW}
    assert "a KRaft controller owns this cluster's metadata, and ZooKeeper may lack" in error


def test_tls_and_log_in_come_from_the_properties_file(tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    config = tmp_path / "server.properties"
    config.write_text(
        "zookeeper.ssl.client.enable=true\n"
        f"zookeeper.ssl.truststore.location={tmp_path / 'ca.pem'}\n"
        "authorizerd.zookeeper.digest=kafka:Pa55-word\n"
    )
    with running_zookeeper(context) as server:
        place = f"zookeeper://{server.address}"
        words = ("export", "--log-dir", log_of(tmp_path, ALLOW), "--to", place)
        acls(*words, "--command-config", config)
        assert all(
            each.acls[0][1] == "digest" for path, each in server.tree.nodes.items() if path != "/"
        )
        printed = acls("import", place, "--to", "listing:-", "--command-config", config)
        assert set(read_listing(printed.out)) == {ALLOW}
        config.write_text(config.read_text().replace("ca.pem", "none.pem"))
        error = acls(*words, "--command-config", config, code=1).err
        assert "--command-config: zookeeper.ssl.truststore.location: " in error


def test_missing_kazoo_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    for name in list(sys.modules):
        if name.startswith("kazoo.") or name == "authorizerd.cli.zookeeper.session":
            monkeypatch.delitem(sys.modules, name)
    error = acls("import", "zookeeper://127.0.0.1:1", "--to", "yaml:-", code=1).err
    assert f"run `{sys.executable} -m pip install kazoo pure-sasl`" in error


@pytest.mark.parametrize("flag", ["--zk-open-acls", "--zk-oldest-broker=2.0"])
def test_flags_for_zookeeper_need_it_as_the_target(tmp_path: Path, flag: str) -> None:
    error = acls("export", "--log-dir", log_of(tmp_path, ALLOW), flag, code=2).err
    assert f"{flag.partition('=')[0]}: expected zookeeper://HOST:PORT as the target" in error


def test_password_in_the_address_is_not_shown() -> None:
    out, error = acls("import", "zookeeper://kafka:Pa55-word@host:2181", "--to", "yaml:-", code=1)
    assert "Pa55-word" not in out + error


def test_hanging_server_is_given_up(cluster: ScriptedZooKeeper, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("zookeeper.connection.timeout.ms=500\n")
    cluster.on(Op.GET_CHILDREN, "/", Fate.UNANSWERED)
    place = f"zookeeper://{cluster.address}"
    error = acls("import", place, "--to", "yaml:-", "--command-config", config, code=1).err
    assert f"{place}: no answer within 0.5 s" in error


PAGE = ROOT / "docs" / "zookeeper.md"
SERVERS = "zk1:2181,zk2:2181"
OURS = "authorizerd "
ACLS = (
    acl("User:alice", topic="orders"),
    acl("User:alice", group="billing"),
    acl("User:bob", "WRITE", topic="pay-", pattern="PREFIXED", deny=True),
)


def run_text(text: str, capfd: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """Return what a command prints, and its exit code. Ours run in this process."""
    words = text.partition("#")[0].split()
    if text.startswith(OURS):
        try:
            code = main(words[1:])
        except SystemExit as end:
            code = int(str(end.code))
    else:
        code = subprocess.run(words, check=False).returncode
    return "".join(capfd.readouterr()).strip("\n"), code


def test_commands_of_the_page_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    with running_zookeeper() as server:
        for chroot in ("/kafka", "/old"):
            for path in list_parents(Target().oldest):
                server.put(chroot + path)
        for each in ACLS:
            server.put("/kafka" + pattern_path(Pattern.of(each)), write_acls([each]))
        for block in blocks_of(PAGE):
            if block.language != "console":
                continue
            for command in commands_of(block.text):
                printed, code = run_text(command.text.replace(SERVERS, server.address), capfd)
                printed = printed.replace(server.address, SERVERS)
                assert code == command.exit_code, (command.text, printed)
                if not command.matches(printed):
                    assert printed == command.shown, command.text
                ran += 1
    assert ran >= 10
