"""What ``authorizerd verify`` refuses, and how it names the fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.metadata.copy_directory import CopyMark, write_mark
from authorizerd.metadata.storage import DISK
from authorizerd.replay.verify import topic_client
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    STEPS,
    Broker,
    Step,
    record,
    write_history,
    write_lines,
)
from tests.support.fixture_types import Capture, MonkeyPatch
from tests.support.log_files import added

PARTIAL = json.dumps({"format_version": "1.2", "planned_values": {"root_module": {"resources": [
    {"address": f"{kind}.a", "type": kind, "mode": "managed", "values": values}
    for kind, values in (("kafka_acl", {
        "resource_name": "t", "resource_type": "Topic", "resource_pattern_type_filter": "Literal",
        "acl_principal": "User:a", "acl_host": "*", "acl_operation": "Read",
        "acl_permission_type": "Allow",
    }), ("redpanda_acl", {}))
]}}})  # fmt: skip
"""A plan of Terraform, of which one resource cannot be read."""


PROVIDER = "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.mark.parametrize(("words", "code", "text"), [
    ("", 2, "--logs"),
    ("--logs {log}", 2, "--log-dir"),
    ("--logs {log} --log-dir {dir} --acls {log}", 2, "found both"),
    ("--logs {log} --acls kafka://h:1", 1, "No such file"),
    ("--logs {log} --log-dir {dir} --window 5", 2, "--window"),
    ("--logs {log} --log-dir {dir} --max-not-judged 2", 2, "--max-not-judged"),
    ("--logs {log} --log-dir {log}", 1, "expected a log directory"),
    ("--logs {log} --log-dir {dir}/empty", 1, "empty"),
    ("--logs {log} --acls {dir}/none", 1, "No such file"),
    ("--logs {dir}/none --log-dir {dir}", 1, "none"),
    ("--logs kafka://h:1 --log-dir {dir}", 2, "--logs: expected kafka://HOST:PORT"),
    ("--logs s3a://a/b --log-dir {dir} --engine local", 1, "use --engine spark"),
    ("--logs s3a://a/b --log-dir {dir} --spark-home {dir}", 1, "no Spark"),
    ("--logs - --log-dir {dir} --engine spark", 1, "not standard input"),
    ("--logs {log} --log-dir {dir} --print", 2, "expected neither"),
    ("--logs {log} --log-dir {dir} --follow --engine spark", 2, "--follow nor"),
    ("--logs {other} --log-dir {dir}", 1, "not accepted"),
    ("--logs {log} --log-dir {dir}/bad", 1, "already present"),
    ("--logs {log} --acls {partial}", 1, "read as a whole"),
    ("--logs {log} --config {dir}/none", 1, "none"),
    ("--logs {log} --bootstrap-server 127.0.0.1:1", 1, "127.0.0.1:1"),
    ("--logs kafka://h/audit --log-dir {dir}", 2, "expected kafka://HOST:PORT"),
    ("--logs kafka://u:p@h:1/audit --log-dir {dir}", 2, "credentials"),
    ("--logs {closed} --log-dir {dir}", 1, "kafka://127.0.0.1:1/audit: "),
    ("--logs {closed} --log-dir {dir} --command-config {dir}/none", 1, "no such file"),
    ("--logs {closed} --log-dir {dir} --command-config {jks}", 1, "PKCS12"),
    ("--logs {log} --log-dir {dir} --command-config {jks}", 2, "expected --bootstrap-server"),
    ("--logs {log} --log-dir {dir} --broker-config {broker}", 2,
     "--broker-config: expected --config as well"),
    ("--logs {log} --config {config} --broker-config {broker}", 1, "NONE"),
    ("--logs {log} --config {config} --broker-config {dir}/none", 1, "--broker-config: "),
    ("--logs {log} --follow --log-dir {dir}", 2, "expected --state"),
    ("--logs {log} --follow --state {state} --acls {none}", 2, "expected --log-dir or --config"),
    ("--logs {log} --state {state} --log-dir {dir}", 2, "--state: expected --follow"),
    ("--logs {log} --follow --state {state} --log-dir {dir} --json", 2, "--json"),
    ("--logs {log} --follow --state {state} --log-dir {dir} --newest-within 2d", 2,
     "whose metrics show"),
    ("--logs {log} --follow --state {state} --log-dir {dir} --logs -", 2, "--logs -"),
    ("--logs {log} --follow --state {state} --log-dir {copy}", 2, "pass --daemon-metrics"),
    ("--logs {log} --follow --listen 0.0.0.0:1 --log-dir {dir}", 2, "loopback"),
    ("--logs {log} --follow --listen [::ffff:127.0.0.1]:1 --log-dir {dir}", 2, "loopback"),
    ("--logs {log} --follow --listen :9183 --log-dir {dir}", 2, "HOST:PORT"),
    ("--logs {log} --follow --listen 9183 --log-dir {dir}", 2, "HOST:PORT"),
    ("--logs {log} --follow --daemon-metrics h:65536 --log-dir {dir}", 2, "HOST:PORT"),
    ("--logs {log} --follow --state {state} --log-dir {dir}/none", 1, "no metadata log"),
    ("--logs {log} --follow --state {dir} --log-dir {dir}", 1, "directory"),
])  # fmt: skip
def test_fault_is_named(
    words: str, code: int, text: str, tmp_path: Path, capsys: Capture,
    monkeypatch: MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(topic_client, "TIMEOUT_S", 0.5)
    folder = write_history(tmp_path / "log", STEPS, END_S)
    (folder / "empty").mkdir()
    write_history(folder / "bad", [Step(0, (added(1),)), Step(1, (added(1),))])
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    write_history(tmp_path / "copy", [Step(0)])
    write_mark(tmp_path / "copy", CopyMark("brokers", secret="s"), DISK)
    files = {
        "log": record(Broker(STEPS)).lines,
        "other": ["no audit line"],
        "partial": [PARTIAL],
        "none": [],
        "config": ["node.id=1", f"log.dirs={folder}"],
        "broker": ["config.providers=env", PROVIDER, "super.users=${env:NONE}"],
        "jks": ["security.protocol=SSL", f"ssl.truststore.location={tmp_path / 'store.jks'}"],
    }
    places: dict[str, object] = {
        name: write_lines(tmp_path / f"{name}.txt", lines) for name, lines in files.items()
    }
    places |= {"dir": folder, "state": tmp_path / "state", "copy": tmp_path / "copy"}
    places["closed"] = "kafka://127.0.0.1:1/audit"
    try:
        found = main(["verify", *(word.format_map(places) for word in words.split())])
    except SystemExit as end:
        found = int(str(end.code))
    printed = capsys.readouterr().err
    assert (found, text in printed) == (code, True), printed
