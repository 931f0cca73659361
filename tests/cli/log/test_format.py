"""``format --add-scram`` accepts what kafka-storage accepts; ``features`` raises a log's level."""

import io
import logging
import re
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import AclAdded
from authorizerd.acl.releases import RULES_4_3, RULES_4_4
from authorizerd.cli.errors import CommandError
from authorizerd.cli.log.format import ITERATIONS, read_scram_arguments
from authorizerd.cli.main import main
from authorizerd.daemon.sources.own_log_directory import format_log_directory
from authorizerd.image.changes import CredentialAdded
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from authorizerd.metadata.replay import read_changes
from authorizerd.metadata.storage import DISK
from authorizerd.protocol.records.scram import ScramMechanism, make_credential, salt_password
from tests.support.acls import acl
from tests.support.daemon_process import write_config
from tests.support.fixture_types import Capture
from tests.support.log_files import read_acls, read_cluster
from tests.support.printed import run_main

SALT = b"salt of 16 bytes"
SALT_TEXT = b64encode(SALT).decode()
SALTED = b"\1" * 32
SALTED_TEXT = b64encode(SALTED).decode()
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def read(*arguments: str) -> list[CredentialAdded]:
    return read_scram_arguments(arguments, lambda: SALT)


def added(
    user: str, mechanism: ScramMechanism, password: str, iterations: int = ITERATIONS
) -> CredentialAdded:
    salted = salt_password(mechanism, password, SALT, iterations)
    return CredentialAdded(user, mechanism, make_credential(mechanism, salted, SALT, iterations))


ALICE = added("alice", SHA_256, "secret")


@pytest.mark.parametrize(("argument", "expected"), [
    ("SCRAM-SHA-256=[name=alice,password=secret]", ALICE),
    ("  SCRAM-SHA-256=[password=secret,name=alice,,] ", ALICE),
    ('SCRAM-SHA-256=[name="alice",password="secret"]', ALICE),
    ("SCRAM-SHA-256=[name=bob,name=alice,password=secret]", ALICE),
    (f"SCRAM-SHA-256=[name=alice,salt={SALT_TEXT},password=secret]", ALICE),
    (f"SCRAM-SHA-256=[name=alice,salt={SALT_TEXT.rstrip('=')},password=secret]", ALICE),
    (f"SCRAM-SHA-256=[name=alice,password=secret,saltedpassword={SALTED_TEXT}]", ALICE),
    ("SCRAM-SHA-512=[name=b=c,iterations=16384,password=d=]e]",
     added("b=c", SHA_512, "d=]e", 16384)),
    ('SCRAM-SHA-512=[name=é,iterations=+4096,password="]', added("é", SHA_512, '"')),
    (f'SCRAM-SHA-256=[name=a,salt="{SALT_TEXT}",saltedpassword="{SALTED_TEXT}"]',
     CredentialAdded("a", SHA_256, make_credential(SHA_256, SALTED, SALT, ITERATIONS))),
])  # fmt: skip
def test_argument_is_read_as_by_kafka_storage(argument: str, expected: CredentialAdded) -> None:
    assert read(argument) == [expected]


def test_several_arguments_keep_their_order() -> None:
    assert read(
        "SCRAM-SHA-512=[name=bob,password=x]", "SCRAM-SHA-256=[name=alice,password=secret]"
    ) == [added("bob", SHA_512, "x"), ALICE]
    assert read() == []


def test_salt_is_random_by_default() -> None:
    argument = "SCRAM-SHA-256=[name=alice,password=secret]"
    first, second = (each.credential.salt for each in read_scram_arguments([argument, argument]))
    for salt in (first, second):  # Kafka's form, which unknown users' salts have as well
        assert re.fullmatch(rb"[0-9a-z]{20,26}", salt)
    assert first != second


REFUSED = [
    ("", "expected '=' after the mechanism"),
    ("hunter2", "expected '=' after the mechanism"),
    ("=[name=a,password=hunter2]",
     "unknown mechanism: expected one of SCRAM-SHA-256, SCRAM-SHA-512"),
    ("scram-sha-256=[name=a,password=hunter2]", "unknown mechanism: expected one of"),
    ("PLAIN=[name=a,password=hunter2]", "unknown mechanism: expected one of"),
    ("SCRAM-SHA-256=name=a,password=hunter2]", "expected [ after the equals sign"),
    ("SCRAM-SHA-256=[name=a,password=hunter2", "expected ] at the end"),
    ("SCRAM-SHA-256=[", "expected ] at the end"),
    ("SCRAM-SHA-256=[]", "part 1 has no equals sign"),
    ("SCRAM-SHA-256=[name=a,password=x,hunter2]", "part 3 has no equals sign"),
    ("SCRAM-SHA-256=[name=a,password=x,hunter2=]",
     "part 3 has an unknown key: expected one of name, password"),
    ("SCRAM-SHA-256=[name=a, password=hunter2]", "part 2 has an unknown key"),
    ("SCRAM-SHA-256=[password=hunter2]", "you must supply 'name'"),
    ("SCRAM-SHA-256=[name=,password=hunter2]", "'name' is empty"),
    ("SCRAM-SHA-256=[name=a]", "one of 'password' or 'saltedpassword'"),
    ("SCRAM-SHA-256=[name=a,password=]", "'password' is empty"),
    ("SCRAM-SHA-256=[name=a,saltedpassword=hunter2=]", "'salt' with 'saltedpassword'"),
    ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=]", "'saltedpassword' is empty"),
    ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=hunter2!]", "'saltedpassword' is not base64"),
    ("SCRAM-SHA-256=[name=a,salt=AAAA,saltedpassword=é]", "'saltedpassword' is not base64"),
    ("SCRAM-SHA-256=[name=a,salt=A,password=hunter2]", "'salt' is not base64"),
    ("SCRAM-SHA-256=[name=a,salt=AA=,password=hunter2]", "'salt' is not base64"),
    ("SCRAM-SHA-256=[name=a,salt=AA==AA==,password=hunter2]", "'salt' is not base64"),
    ("SCRAM-SHA-256=[name=a,iterations=4095,password=hunter2]", "has to be 4096 to 16384"),
    ("SCRAM-SHA-256=[name=a,iterations=16385,password=hunter2]", "has to be 4096 to 16384"),
    ("SCRAM-SHA-256=[name=a,iterations=-4096,password=hunter2]", "has to be 4096 to 16384"),
    ("SCRAM-SHA-256=[name=a,iterations=4_096,password=hunter2]", "is not an integer"),
    ("SCRAM-SHA-256=[name=a,iterations=99999999999,password=hunter2]", "is not an integer"),
    ("SCRAM-SHA-256=[name=\udcff,password=hunter2]", "'name' is not UTF-8"),
    ("SCRAM-SHA-256=[name=a,password=hunter2\udcff]", "'password' is not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "reason"), REFUSED)
def test_error_gives_the_reason_and_the_number_of_the_argument(argument: str, reason: str) -> None:
    with pytest.raises(CommandError) as refused:
        read(argument)
    assert str(refused.value).startswith("--add-scram: ")
    assert reason in str(refused.value)
    with pytest.raises(CommandError, match=r"--add-scram \(number 2\): "):
        read("SCRAM-SHA-256=[name=alice,password=secret]", argument)


SECRET = "hunter2"
keys = st.sampled_from(["name", "password", "saltedpassword", "salt", "iterations", "", SECRET])
values = st.sampled_from(["", SECRET, f'"{SECRET}"', SECRET + "!", "AAAA", "5000"])
parts = st.builds("{}{}{}".format, keys, st.sampled_from(["=", "", " ="]), values)
mechanisms = st.sampled_from(["SCRAM-SHA-256", SECRET, ""])
wrong_or_right = st.builds(
    "{}{}{}{}".format, mechanisms, st.sampled_from(["=[", "=", ""]),
    st.lists(parts, max_size=5).map(",".join), st.sampled_from(["]", ""]),
)  # fmt: skip


def error_of(argument: str) -> CommandError | None:
    try:
        read(argument)
    except CommandError as error:
        return error
    return None


@given(wrong_or_right)
def test_error_never_contains_the_password(argument: str) -> None:
    error = error_of(argument)
    if error is not None:
        assert SECRET not in str(error)
        assert error.__cause__ is None


def test_format_writes_credentials_in_the_second_batch_and_no_password(
    tmp_path: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    config = write_config(tmp_path, tmp_path / "log")
    arguments = [
        f"--add-scram=SCRAM-SHA-256=[name=alice,salt={SALT_TEXT},password=secret]",
        f"--add-scram=SCRAM-SHA-512=[name=alice,salt={SALT_TEXT},password=secret]",
    ]
    with caplog.at_level(logging.DEBUG):
        assert main(["format", "--config", str(config), *arguments]) == 0
    log_dir = tmp_path / "log"
    expected = [ALICE, added("alice", SHA_512, "secret")]
    assert dict(read_cluster(log_dir).credentials) == {
        (each.user, each.mechanism): each.credential for each in expected
    }
    batches = [batch.cluster_changes for batch in read_changes(log_dir) if batch.cluster_changes]
    assert len(batches) == 2
    assert list(batches[1]) == expected
    printed = capsys.readouterr()
    files = [path for path in log_dir.rglob("*") if path.is_file()]
    assert any(path.parent.name == METADATA_TOPIC_DIRECTORY for path in files)
    for said in (printed.out, printed.err, caplog.text, *(str(f.read_bytes()) for f in files)):
        assert "secret" not in said


@pytest.mark.parametrize(("mechanisms", "arguments", "is_warned"), [
    ("SCRAM-SHA-512", [], True),
    ("SCRAM-SHA-512", ["--add-scram", "SCRAM-SHA-256=[name=a,password=b]"], True),
    ("SCRAM-SHA-512", ["--add-scram", "SCRAM-SHA-512=[name=a,password=b]"], False),
    ("SCRAM-SHA-512,PLAIN", [], False),
    ("OAUTHBEARER", [], False),
])  # fmt: skip
def test_format_warns_that_nobody_can_log_in(
    tmp_path: Path, mechanisms: str, arguments: list[str], is_warned: bool
) -> None:
    keys = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": mechanisms,
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";'
        ),
        "sasl.oauthbearer.jwks.endpoint.url": "https://login.example.com/keys",
    }
    config = write_config(tmp_path, tmp_path / "log", keys)
    printed = run_main("format", "--config", config, *arguments)
    assert ("nobody can log in on SASL_PLAINTEXT" in printed.err) is is_warned


@pytest.mark.parametrize(("piped", "users"), [
    (b"SCRAM-SHA-512=[name=a,password=hunter2]\n\nSCRAM-SHA-512=[name=b,password=hunter2]", "abc"),
    (b" \n", "--add-scram -: expected a line"),
    (b"SCRAM-SHA-512=[name=a,password=hunter2\xff]", "'password' is not UTF-8"),
])  # fmt: skip
def test_credentials_are_read_from_standard_input(
    piped: bytes, users: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments are visible to other users of the machine."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(piped)))
    config = write_config(tmp_path, tmp_path / "log")
    words = ["--add-scram", "-", "--add-scram", "SCRAM-SHA-512=[name=c,password=x]"]
    printed = run_main("format", "--config", config, *words, code=(0, 1))
    assert SECRET not in printed.out + printed.err
    if printed.err:
        assert users in printed.err
    else:
        assert {user for user, _ in read_cluster(tmp_path / "log").credentials} == {*users}


def test_invalid_argument_creates_no_log(tmp_path: Path) -> None:
    config = write_config(tmp_path, tmp_path / "log")
    argument = "SCRAM-SHA-256=[name=a,password=hunter2"
    printed = run_main("format", "--config", config, "--add-scram", argument, code=1)
    assert printed.err.startswith("authorizerd: --add-scram: ")
    assert printed.err.count("\n") == 1
    assert SECRET not in printed.out + printed.err
    assert not (tmp_path / "log").exists()


RANGE = acl(topic="t", host="10.0.0.0/8", deny=True)


@pytest.fixture
def old_log(tmp_path: Path) -> Path:
    """Return a log at the level of 4.3, with an ACL for a range."""
    log_dir = tmp_path / "log"
    format_log_directory(
        log_dir, cluster_id=None, node_id=1, storage=DISK, batches=[[AclAdded(bytes(16), RANGE)]],
        metadata_version=30,
    )  # fmt: skip
    return log_dir


def test_upgrade_raises_the_level_and_names_the_ranges(old_log: Path) -> None:
    """The ACLs stay. A second upgrade changes nothing."""
    upgrade = ["features", "upgrade", "--log-dir", str(old_log), "--metadata", "4.4-IV2"]
    assert run_main("features", "describe", "--log-dir", old_log).out.splitlines() == [
        "metadata.version: 4.3-IV0 (30)",
        f"A daemon that owns this log judges by the rules of Kafka {RULES_4_3}.",
    ]
    assert run_main(*upgrade).out.splitlines() == [
        f"{old_log}: 4.3-IV0 (30) is now 4.4-IV2 (33).",
        f"ACLs are judged by the rules of Kafka {RULES_4_4} from now on.",
        "1 ACL may match a range of addresses now:",
        f"  {RANGE}",
    ]
    assert read_cluster(old_log).metadata_version == 33
    assert list(read_acls(old_log).values()) == [RANGE]
    assert run_main(*upgrade).out == "The log has 4.4-IV2 (33) already.\n"


def test_level_is_not_lowered(old_log: Path) -> None:
    flags = ["features", "upgrade", "--log-dir", str(old_log), "--metadata"]
    run_main(*flags, "4.4-IV2")
    assert "expected at least 4.4-IV2 (33)" in run_main(*flags, "4.3-IV0", code=1).err
    assert read_cluster(old_log).metadata_version == 33


@pytest.mark.parametrize(
    "words", [["upgrade"], ["describe", "--metadata", "4.4"], ["upgrade", "--metadata", "4.4-IV0"]]
)
def test_invalid_flags_are_rejected(words: list[str], old_log: Path) -> None:
    run_main("features", *words, "--log-dir", old_log, code=2)


def test_new_log_has_the_level_that_is_named(tmp_path: Path) -> None:
    """4.4's by default; 4.3's for a log that Kafka 4.3 can read."""
    config = tmp_path / "server.properties"
    for flags, level in (([], 33), (["--release-version", "4.3-IV0"], 30)):
        log_dir = tmp_path / str(level)
        config.write_text(f"node.id=1\nlog.dirs={log_dir}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
        run_main("format", "--config", config, *flags)
        assert read_cluster(log_dir).metadata_version == level
