"""The output of the commands, and their exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from authorizerd.acl.model import Acl
from authorizerd.cli.transfer.command import describe_losses
from authorizerd.management.formats.listing import format_acls
from authorizerd.management.formats.model import Loss
from tests.support.acls import acl
from tests.support.daemon_process import write_config
from tests.support.log_files import added, read_acls, removed, write_log
from tests.support.printed import Printed, run_main

READ = acl("User:a", topic="orders")
DENIED = acl("User:b", "WRITE", topic="or", pattern="PREFIXED", deny=True)
UNKNOWN = Acl(2, "orders", 3, "User:a", "*", 99, 2)
YAML = """\
acls:
  - principal: User:a
    operation: [READ]
    permission_type: ALLOW
    resource_type: TOPIC
    resource_name: orders
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a log with ``READ`` and ``DENIED``."""
    write_log(tmp_path / "log", [added(1, READ)], [added(2, DENIED)])
    return tmp_path / "log"


def acls(*words: str | Path, code: int = 0) -> Printed:
    return run_main("acls", *words, code=code)


def test_export_prints_yaml_and_reports_on_standard_error(log: Path) -> None:
    printed = acls("export", "--log-dir", log, "--principal", "User:a")
    assert printed.out == YAML
    assert printed.err == (
        f"selected 1 of 2 ACLs from {log}\nwrote 1 ACL to standard output (yaml)\n"
    )


@pytest.mark.parametrize("words", [("--format", "json"), ("--to", "json:-")])
def test_standard_output_gets_the_named_format(log: Path, words: tuple[str, ...]) -> None:
    assert len(json.loads(acls("export", "--log-dir", log, *words).out)["acls"]) == 2


@pytest.mark.parametrize(("name", "kind"), [
    ("a.yaml", "yaml"),
    ("a.yml", "yaml"),
    ("a.json", "json"),
    ("a.tf.json", "terraform"),
    ("a.txt", "listing"),
    ("a.list", "listing"),
])  # fmt: skip
def test_end_of_a_name_tells_the_format(log: Path, tmp_path: Path, name: str, kind: str) -> None:
    target = str(tmp_path / name)
    words = ("export", "--log-dir", log, "--principal", "User:a", "--to", target)
    assert json.loads(acls(*words, "--json").out)["to"]["kind"] == kind
    printed = acls("import", target, "--log-dir", log, "--node-id", "1")
    assert "1 of them is already in" in printed.out


def test_standard_input_has_any_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (YAML, json.dumps({"acls": []})):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        target = f"listing:{tmp_path / 'listing'}"
        assert "from standard input" in acls("import", "-", "--to", target, "--overwrite").out
    assert (tmp_path / "listing").read_text() == ""


def test_import_says_what_is_there_and_how_to_remove(log: Path, tmp_path: Path) -> None:
    (tmp_path / "acls.yaml").write_text(YAML)
    printed = acls("import", tmp_path / "acls.yaml", "--log-dir", log, "--node-id", "1")
    assert printed.out.splitlines() == [
        f"read 1 ACL from {tmp_path / 'acls.yaml'}",
        f"1 of them is already in {log}",
        f"wrote 0 ACLs to {log} (log directory)",
        f"ACLs that {tmp_path / 'acls.yaml'} lacks are kept: `authorizerd acls plan` also removes "
        "ACLs",
    ]
    assert printed.err == ""


def test_import_warns_of_what_is_probably_not_meant(log: Path, tmp_path: Path) -> None:
    (tmp_path / "acls.yaml").write_text(YAML.replace("User:a", "user:a"))
    source = str(tmp_path / "acls.yaml")
    printed = acls("import", source, "--log-dir", log, "--node-id", "1")
    assert printed.err.startswith("authorizerd: warning: ")
    assert "user:a" in printed.err
    assert "warning" not in acls("export", "--acls", source).err


def write_unknown(tmp_path: Path) -> Path:
    write_log(tmp_path / "unknown", [added(1, READ), added(2, UNKNOWN)])
    return tmp_path / "unknown"


def test_a_loss_stops_the_command_before_anything_is_written(tmp_path: Path) -> None:
    source, target = write_unknown(tmp_path), tmp_path / "acls.yaml"
    printed = acls("export", "--log-dir", source, "--to", target, code=3)
    assert not target.exists()
    assert printed.err.splitlines() == [
        f"authorizerd: loss: {UNKNOWN}: Kafka does not accept such an ACL: Invalid operation "
        "UNKNOWN",
        "authorizerd: 1 DENY among them: without a DENY, more is allowed",
        "authorizerd: nothing was written, because something would be lost: pass --accept-losses "
        "to leave it out",
    ]


def test_accepted_losses_are_left_out_and_named(tmp_path: Path) -> None:
    source, target = write_unknown(tmp_path), tmp_path / "acls.yaml"
    words = ("export", "--log-dir", source, "--to", str(target), "--accept-losses", "--json")
    printed = acls(*words)
    assert target.read_text() == YAML
    assert json.loads(printed.out) == {
        "from": str(source), "to": {"place": str(target), "kind": "yaml"}, "read": 2, "selected": 2,
        "present": 0, "new": 1, "written": 1, "is_written": True, "is_dry_run": False,
        "losses": [{
            "acl": {
                "resource_type": "TOPIC", "resource_name": "orders", "pattern_type": "LITERAL",
                "principal": "User:a", "host": "*", "operation": "UNKNOWN",
                "permission_type": "DENY",
            },
            "reason": "Kafka does not accept such an ACL: Invalid operation UNKNOWN",
        }],
        "losses_accepted": True, "requests": None, "offset": None, "cluster_id": None,
        "failure": None,
    }  # fmt: skip
    assert "loss: StandardAcl[" in printed.err


def test_acl_with_an_unknown_code_in_a_text_is_not_written(tmp_path: Path) -> None:
    """A listing of a later Kafka version says UNKNOWN, but the ACL has another code."""
    (tmp_path / "listing.txt").write_text(format_acls([READ, UNKNOWN]))
    words = ("import", str(tmp_path / "listing.txt"), "--log-dir", str(tmp_path / "new"))
    assert "loss: StandardAcl[" in acls(*words, "--node-id", "1", code=3).err
    assert not (tmp_path / "new").exists()
    acls(*words, "--node-id", "1", "--accept-losses")
    assert set(read_acls(tmp_path / "new").values()) == {READ}


def test_loss_of_an_acl_that_is_not_selected_does_not_stop_the_command(tmp_path: Path) -> None:
    write_log(tmp_path / "unknown", [added(1, UNKNOWN), added(2, DENIED)])
    words = ("export", "--log-dir", str(tmp_path / "unknown"), "--principal", "User:b")
    assert "User:b" in acls(*words).out


def test_many_losses_are_counted_by_reason_and_principal_after_all_denials() -> None:
    allowed = [
        Loss(acl(f"User:u{number % 7}", topic=f"t{number}"), f"reason {number % 2}")
        for number in range(30)
    ]
    denied = [Loss(acl("User:d", topic=f"t{number}", deny=True), "no DENY") for number in range(99)]
    lines = list(describe_losses((*allowed[:15], *denied, *allowed[15:], Loss(None, "a role"))))
    assert lines[:99] == [f"loss: {loss}" for loss in denied]
    assert lines[99:] == [
        "loss: 15 ALLOWs of User:u0 (3), User:u2 (2), User:u4 (2), User:u6 (2), User:u1 (2) and 2 "
        "other principals: reason 0",
        "loss: 15 ALLOWs of User:u1 (3), User:u3 (2), User:u5 (2), User:u0 (2), User:u2 (2) and 2 "
        "other principals: reason 1",
        "loss: a role",
        "--json lists each of the losses",
        "99 DENYs among them: without a DENY, more is allowed",
    ]
    assert list(describe_losses(tuple(allowed[:20]))) == [f"loss: {each}" for each in allowed[:20]]


def test_lines_about_losses_are_bounded() -> None:
    denied = [Loss(acl(topic=f"t{number}", deny=True), "no DENY") for number in range(1_002)]
    lines = list(describe_losses(tuple(denied)))
    assert lines[1_000:] == [
        "and 2 more DENYs; --json lists all",
        "1002 DENYs among them: without a DENY, more is allowed",
    ]
    odd = [Loss(acl(topic=f"t{number}"), f"reason {number}") for number in range(60)]
    lines = list(describe_losses(tuple(odd)))
    assert len(lines) == 51
    assert lines[-1] == "and 10 more; --json lists each of the losses"


def test_dry_run_writes_nothing(log: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for target in ("a.yaml", "00000000000000000007-0000000001.checkpoint", "log:new"):
        kind, _, name = target.rpartition(":")
        place = f"{kind}:{tmp_path / name}" if kind else str(tmp_path / name)
        node = ("--node-id", "1") if kind else ()
        words = ("export", "--log-dir", log, "--to", place, "--dry-run", *node)
        assert "would write 2 ACLs (1 DENY, 1 ALLOW) to" in acls(*words).out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_dry_run_with_losses_says_so_with_its_exit_code(tmp_path: Path) -> None:
    words = ("export", "--log-dir", write_unknown(tmp_path), "--dry-run", "--json")
    report = json.loads(acls(*words, "--to", tmp_path / "x.yaml", code=3).out)
    assert (report["new"], report["is_written"]) == (1, False)


def test_moment_of_a_log_is_exported(tmp_path: Path) -> None:
    log_dir = str(tmp_path / "past")
    write_log(tmp_path / "past", [added(1, READ)], [removed(1)])
    assert acls("export", "--log-dir", log_dir, "--as-of", "2").out == YAML
    assert acls("export", "--log-dir", log_dir).out == "acls: []\n"


@pytest.mark.parametrize(("words", "expected"), [
    (("--topic", "orders"), {READ}),
    (("--topic", "or"), set()),
    (("--topic", "or", "--resource-pattern-type", "prefixed"), {DENIED}),
    (("--topic", "orders", "--resource-pattern-type", "MATCH"), {READ, DENIED}),
    (("--topic", "orders", "--group", "g"), {READ}),
    (("--topic", "orders", "--principal", "User:b"), set()),
    (("--principal", "User:a", "--principal", "User:b"), {READ, DENIED}),
    (("--cluster",), set()),
    (("--topic-prefix", "or"), {READ, DENIED}),
    (("--topic-prefix", "ord"), {READ}),
    (("--principal-prefix", "User:"), {READ, DENIED}),
    (("--principal-prefix", "User:b", "--topic-prefix", "or"), {DENIED}),
    ((), {READ, DENIED}),
])  # fmt: skip
def test_selection_has_the_meaning_of_kafka_acls(
    log: Path, tmp_path: Path, words: tuple[str, ...], expected: set[Acl]
) -> None:
    target = ("--to", f"log:{tmp_path / 'new'}", "--node-id", "1")
    acls("export", "--log-dir", log, *words, *target)
    assert set(read_acls(tmp_path / "new").values()) == expected


def test_export_that_selects_nothing_keeps_a_file(log: Path, tmp_path: Path) -> None:
    (tmp_path / "acls.yaml").write_text(YAML)
    words = ("export", "--log-dir", log, "--overwrite", "--topic", "typo", "--to")
    printed = acls(*words, tmp_path / "acls.yaml", code=1)
    assert "the file was kept, because the flags select no ACLs: check the names" in printed.err
    assert (tmp_path / "acls.yaml").read_text() == YAML
    printed = acls(*words, tmp_path / "new.yaml")
    assert printed.out.startswith(f"selected 0 of 2 ACLs from {log}\n")
    assert (tmp_path / "new.yaml").read_text() == "acls: []\n"


def test_empty_source_replaces_a_file(tmp_path: Path) -> None:
    """Without flags, no name can have a typo: the source is empty."""
    (tmp_path / "acls.yaml").write_text(YAML)
    (tmp_path / "empty.yaml").write_text("acls: []\n")
    target = str(tmp_path / "acls.yaml")
    acls("export", "--acls", tmp_path / "empty.yaml", "--to", target, code=1)
    words = ("export", "--acls", str(tmp_path / "empty.yaml"), "--to", target, "--overwrite")
    acls(*words)
    assert (tmp_path / "acls.yaml").read_text() == "acls: []\n"


@pytest.mark.parametrize(("words", "expected"), [
    ("export", "expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE, --acls"),
    ("export --log-dir a --bootstrap-server b:1", "expected either --bootstrap-server or"),
    ("export --log-dir a --from b", "--from: expected either --log-dir or --from, found both"),
    ("export --log-dir a --acls b", "--acls: expected one source of ACLs, found two"),
    ("export --log-dir a --override b=c", "--override: expected --config as well"),
    ("export --log-dir a --json", "--json: expected --to FILE, because standard output"),
    ("export --log-dir a --to http://b", "--to: unknown scheme 'http'"),
    ("export --log-dir a --to kafka://b:1 --format yaml", "--format: expected a file, found"),
    ("export --log-dir a --to yaml:b --format json", "--format: json, but yaml:b names"),
    ("export --log-dir a --overwrite", "--overwrite: expected a file, found -"),
    ("export --log-dir a --to b/ --overwrite", "--overwrite: expected a file, found b/"),
    ("export --log-dir a --to b.yaml --node-id 1", "--node-id: expected a log directory"),
    ("import a --log-dir b --node-id -1", "--node-id: expected 0 to 2147483647, found -1"),
    ("import a --log-dir b --node-id 2147483648", "--node-id: expected 0 to 2147483647"),
    ("export --acls a --as-of 3", "--as-of: expected a log, found a, which has no history"),
    ("export --log-dir a --as-of soon", "--as-of: "),
    ("export --log-dir a --resource-pattern-type ANY", "expected the name of a resource"),
    ("export --log-dir a --principal alice", "principal: expected Type:name, for example User:"),
    ("import a --to b.yaml --principal alice", "principal: expected Type:name, for example User:"),
    ("export --log-dir a --topic=", "resource-name: expected a text, found an empty one"),
    ("export --log-dir a --command-config f", "--command-config: expected a cluster"),
    ("export --log-dir a --from-config f", "--from-config: expected a cluster on that side"),
    ("export --from kafka://a:1 --to kafka://b:1 --command-config f",
     "both places are clusters: use --from-config and --to-config"),
    ("export --bootstrap-server a:1 --from-config f --command-config f",
     "expected either this flag or --from-config, found both"),
    ("import", "the following arguments are required: FROM"),
    ("import a", "expected --bootstrap-server HOST:PORT, --log-dir DIR, --config FILE or"),
    ("import a --config b --node-id 1", "expected either --config or --node-id, found both"),
])  # fmt: skip
def test_arguments_that_cannot_be_combined_exit_with_2(words: str, expected: str) -> None:
    printed = acls(*words.split(), code=2)
    assert expected in printed.err
    assert printed.out == ""


def test_faults_exit_with_1(log: Path, tmp_path: Path) -> None:
    assert "no metadata log found" in acls("export", "--log-dir", tmp_path / "none", code=1).err
    printed = acls("export", "--log-dir", log, "--to", tmp_path / "x", code=1)
    assert "expected a format: use FORMAT:" in printed.err
    printed = acls("import", tmp_path / "none", "--to", tmp_path / "a.yaml", code=1)
    assert "No such file or directory" in printed.err


def test_configuration_that_follows_a_cluster_is_refused(log: Path, tmp_path: Path) -> None:
    config = write_config(
        tmp_path,
        tmp_path / "copy",
        {
            "controller.quorum.bootstrap.servers": "c:1",
            "controller.listener.names": "C",
            "listener.security.protocol.map": "C:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
    )
    printed = acls("import", log, "--config", config, code=1)
    assert "follows a cluster: import into the cluster itself" in printed.err
