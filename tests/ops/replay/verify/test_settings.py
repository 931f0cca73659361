"""Settings of a broker that differ from those of the daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from authorizerd.cli.main import main
from authorizerd.replay.verify.settings import compare_settings
from tests.ops.replay.verify.scripted_broker import (
    END_S,
    STEPS,
    Broker,
    record,
    run,
    write_history,
    write_lines,
)
from tests.support.fixture_types import Capture

STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BROKER = ("process.roles=broker", "super.users=User:a;User:b", STANDARD)
RULES = "ssl.principal.mapping.rules"
KERBEROS = "sasl.kerberos.principal.to.local.rules"
BUILDER = "principal.builder.class"
DEFAULT_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"


@pytest.mark.parametrize(("line", "expected"), [
    ("", None),
    ("super.users=User:b; User:a", None),
    ("super.users=User:a", ("super.users", "User:a", "User:a and User:b")),
    ("super.users=", ("super.users", "nothing", "User:a and User:b")),
    ("allow.everyone.if.no.acl.found=no", None),
    ("allow.everyone.if.no.acl.found=TRUE", ("allow.everyone.if.no.acl.found", "true", "false")),
    ("authorizer.class.name=com.example.Opa",
     ("authorizer.class.name", "com.example.Opa", STANDARD.partition("=")[2])),
    ("authorizer.class.name=", ("authorizer.class.name", "nothing", STANDARD.partition("=")[2])),
    (f"{BUILDER}=", None),
    (f"{BUILDER}={DEFAULT_BUILDER}", None),
    (f"{BUILDER}=com.example.Names", (BUILDER, "com.example.Names", DEFAULT_BUILDER)),
    (f"listener.name.ssl.{BUILDER}=com.example.Names",
     (BUILDER, f"com.example.Names and {DEFAULT_BUILDER}", DEFAULT_BUILDER)),
    (f"{RULES}=DEFAULT", None),
    (f"{RULES}=RULE:^CN=(.*?),.*$/$1/", (RULES, "RULE:^CN=(.*?),.*$/$1/", "DEFAULT")),
    (f"listener.name.ssl.{RULES}=DEFAULT", None),
    (f"{KERBEROS}=RULE:[1:$1]", (KERBEROS, "RULE:[1:$1]", "DEFAULT")),
])  # fmt: skip
def test_setting_that_differs_is_a_difference(
    line: str, expected: tuple[str, str, str] | None, tmp_path: Path, capsys: Capture
) -> None:
    log = write_history(tmp_path / "log", STEPS, END_S)
    own = ["node.id=1", f"log.dirs={log}", "super.users=User:a;User:b"]
    words = (
        "--logs", write_lines(tmp_path / "audit.log", record(Broker(STEPS)).lines),
        "--config", write_lines(tmp_path / "server.properties", own), "--super-users=",
        "--broker-config", write_lines(tmp_path / "broker.properties", [*BROKER, line]),
    )  # fmt: skip
    code, document = run(capsys, *words)
    found = [(one["key"], one["broker"], one["here"]) for one in document["settings"]]
    assert (code, found) == ((0, []) if expected is None else (3, [expected]))
    assert main(["verify", *map(str, words)]) == code
    page = capsys.readouterr().out
    said = None if expected is None else "{} differs: {} at the broker, {} here: ".format(*expected)
    assert " differs: " not in page if said is None else said in page


def test_listeners_here_count_too() -> None:
    rules = {f"listener.name.ssl.{RULES}": "RULE:a/b/"}
    authorizer = {"authorizer.class.name": STANDARD.partition("=")[2]}
    assert not list(compare_settings({**rules, **authorizer}, rules))
    assert [one.key for one in compare_settings(authorizer, rules)] == [RULES]
