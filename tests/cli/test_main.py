"""The commands that need no daemon, and what all commands have in common."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from authorizerd.cli.configuration_file import CONFIGURATION_BYTES_MAX, read_configuration_text
from authorizerd.cli.main import main
from authorizerd.daemon.errors import StartError
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.support.log_files import write_segment

HEADER = re.compile(r"Current ACLs for resource `(ResourcePattern\(.*\))`:")


@pytest.fixture
def real(real_log_dir: Path) -> Path:
    return real_log_dir


def bindings(printed: str) -> set[tuple[str, str]]:
    """Return every binding of kafka-acls' output: its pattern and its entry, as printed."""
    found: set[tuple[str, str]] = set()
    pattern = ""
    for line in printed.splitlines():
        if (header := HEADER.fullmatch(line)) is not None:
            pattern = header[1]
        elif line:
            assert line.startswith("\t(principal=")
            assert (pattern, line) not in found
            found.add((pattern, line))
    return found


def listed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> set[tuple[str, str]]:
    assert main(["acls", "--list", *map(str, arguments)]) == 0
    return bindings(capsys.readouterr().out)


def test_the_acls_of_a_real_log_are_those_that_kafka_acls_lists(
    real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All 1,751, binding by binding, in kafka-acls' own format; from a checkpoint alone too."""
    expected = bindings((real / "acls-list.txt").read_text())
    assert len(expected) == 1751
    assert listed(capsys, "--log-dir", real) == expected
    newest = max((real / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint"))
    assert listed(capsys, "--log-dir", newest) == expected


def test_a_list_can_be_narrowed(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By resource, by how its name is meant, by principal; several flags are joined."""
    everything = listed(capsys, "--log-dir", real)
    pattern = "ResourcePattern(resourceType=TOPIC, name=fraud-out-228, patternType=LITERAL)"
    exact = {each for each in everything if each[0] == pattern}
    assert exact
    assert listed(capsys, "--log-dir", real, "--topic", "fraud-out-228") == exact
    met = listed(
        capsys, "--log-dir", real, "--topic", "fraud-out-228", "--resource-pattern-type", "match"
    )
    assert exact < met < everything
    both = listed(capsys, "--log-dir", real, "--topic", "fraud-out-228", "--cluster")
    assert both == exact | {each for each in everything if "resourceType=CLUSTER" in each[0]}


def test_a_list_by_principal_says_whose_it_is(
    real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each principal's ACLs follow its heading; the headings stand in kafka-acls' order."""
    everything = listed(capsys, "--log-dir", real)
    principals = ("User:orders-svc-27", "User:nobody")
    flags = [part for principal in principals for part in ("--principal", principal)]
    assert main(["acls", "--list", "--log-dir", str(real), *flags]) == 0
    printed = capsys.readouterr().out
    second, first = (f"ACLs for principal `{principal}`\n" for principal in principals)
    assert printed.startswith(first + second)
    assert bindings(printed.removeprefix(first + second)) == {
        each for each in everything if f"(principal={principals[0]}," in each[1]
    }


def explain(*arguments: str | Path) -> int:
    return main(["explain", *map(str, arguments)])


def test_explain_says_what_is_decided_and_why(
    real: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 where allowed, 3 where denied; the rule, all that speaks, and the offset."""
    asked = ("--log-dir", real, "--principal", "User:orders-svc-27", "--topic", "fraud-out-228")
    assert explain(*asked, "--operation", "create", "--host", "10.0.0.1") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "Principal = User:orders-svc-27 is Allowed operation = CREATE from host = 10.0.0.1"
    )
    assert printed.endswith(
        "at log offset 3059, of 1751 ACLs\n"
        "by super.users= (assumed), allow.everyone.if.no.acl.found=false (assumed); "
        "--config server.properties uses the daemon's\n"
    )
    assert printed.count("StandardAcl[") == 2
    assert explain(*asked, "--operation", "Alter-Configs") == 3
    assert "based on rule DefaultDeny" in capsys.readouterr().out
    assert explain(*asked, "--operation", "write", "--super-users", "User:orders-svc-27") == 0
    assert "based on rule SuperUser" in capsys.readouterr().out


def test_explain_decides_by_the_settings_that_it_names(
    real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon with other settings decides differently: each one's origin is printed."""
    config = tmp_path / "server.properties"
    lines = f"node.id=1\nlog.dirs={real}\nsuper.users=User:root\n"
    config.write_text(f"{lines}allow.everyone.if.no.acl.found=true\n")
    asked = ("--config", config, "--operation", "write", "--topic", "unheard-of")
    by = f"allow.everyone.if.no.acl.found=true ({config})\n"
    assert explain(*asked, "--principal", "User:root") == 0
    printed = capsys.readouterr().out
    assert "based on rule SuperUser" in printed
    assert printed.endswith(f"\nby super.users=User:root ({config}), {by}")
    assert explain(*asked, "--principal", "User:a") == 3
    override = ("--override", "super.users=User:a")
    assert explain(*asked, "--principal", "User:a", *override) == 0
    assert explain(*asked, "--principal", "User:b", "--super-users", "User:b") == 0
    assert "\nby super.users=User:b (--super-users), allow" in capsys.readouterr().out
    assert explain(*asked, "--principal", "User:a", "--override", "authorizer.class.name=") == 1
    assert "explain knows its rules only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ["--principal", "alice"],
            "--principal: expected Type:name, for example User:alice, found 'alice'",
        ),
        (["--host", "localhost"], "--host: expected an IP address, found 'localhost'"),
        (["--host", "2001:db8::9%x"], "--host: expected an IP address, found '2001:db8::9%x'"),
        (["--operation", "wr\u0131te"], "--operation: unknown operation 'wr\u0131te'"),
        (
            ["--operation", "fly"],
            "--operation: unknown operation 'fly': expected one of ALL, READ, ",
        ),
        (
            ["--operation", "any"],
            "--operation: unknown operation 'any': expected one of ALL, READ, ",
        ),
        (["--group", "g"], "expected one resource, found 2: name one by --topic, --group, "),
        (["--override", "a=b"], "--override: expected --config too"),
        (["--super-users", "alice"], "--super-users: alice is not Type:name"),
    ],
)
def test_wrong_arguments_are_named(
    real: Path, capsys: pytest.CaptureFixture[str], changed: list[str], said: str
) -> None:
    """Exit code 2, before anything is read."""
    with pytest.raises(SystemExit) as error:
        explain(
            *("--log-dir", real, "--principal", "User:a", "--operation", "read", "--topic", "t"),
            *changed,
        )
    assert error.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["serv"], "authorizerd: unknown command 'serv' (did you mean serve?): expected one of "),
        (["wrker"], "authorizerd: unknown command 'wrker': expected one of "),
        ([], "authorizerd: the following arguments are required: COMMAND"),
        (["serve"], "authorizerd serve: the following arguments are required: --config"),
        (["explain", "--topic"], "authorizerd explain: argument --topic: expected one argument"),
        (["check-log"], "authorizerd check-log: the following arguments are required: directory"),
        (["doctor", "--jsn"], "authorizerd doctor: the following arguments are required: --config"),
        (["token", "--principal", "User:a", "x"], "authorizerd: unrecognized arguments: x"),
    ],
)
def test_wrong_words_are_answered_in_two_lines(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error first, then where the options are listed; the daemon's own command is not told."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == (1 if words[:1] in (["check-log"], ["doctor"]) else 2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(error)
    assert "worker" not in first
    command = error.partition(":")[0]
    assert second == f"Run '{command} --help' for the options."


READER_LEAVES = """
import subprocess, sys
command = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
command.stdout.close()
sys.exit(command.wait())
"""


def leave(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output nobody reads, not even its beginning."""
    command = (sys.executable, "-m", "authorizerd.cli.main", *map(str, words))
    return subprocess.run(
        [sys.executable, "-c", READER_LEAVES, *command], capture_output=True, text=True, check=False
    )


def test_a_reader_that_leaves_changes_no_exit_code(real: Path, tmp_path: Path) -> None:
    """As in ``authorizerd doctor | head``: each command has the code that it would have had."""
    config = tmp_path / "server.properties"
    config.write_text("node.id=x\n")
    asked = ("--principal", "User:a", "--operation", "read", "--topic", "t")
    for words, code in (
        (("doctor", "--config", config), 2),
        (("check-log", real), 0),
        (("acls", "--list", "--log-dir", real), 0),
        (("explain", "--log-dir", real, *asked), 3),
        (("--help",), 0),
    ):
        done = leave(*words)
        assert done.returncode == code, (words, done.stderr)
        assert "Broken pipe" not in done.stderr
        assert "Traceback" not in done.stderr


STREAMS_CLOSED = (">&-", "2>&-", "<&- >&- 2>&-")


@pytest.mark.parametrize("closed", STREAMS_CLOSED)
def test_a_standard_stream_that_is_closed_changes_no_exit_code(
    real: Path, tmp_path: Path, closed: str
) -> None:
    """As for a reader that leaves; a service manager may close them."""
    config = tmp_path / "server.properties"
    config.write_text("node.id=x\n")
    asked = ("--principal", "User:a", "--operation", "read", "--topic", "t")
    for words, code in (
        (("doctor", "--config", config), 2),
        (("check-log", real), 0),
        (("explain", "--log-dir", real, *asked), 3),
        (("serve", "--config", config), 1),
    ):
        command = (sys.executable, "-m", "authorizerd.cli.main", *map(str, words))
        shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert done.returncode == code, (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_no_file_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    """What is printed would be written into it."""
    code = """
import sys
from authorizerd.cli.standard_streams import tolerate_lost_readers
tolerate_lost_readers()
with open(sys.argv[1], "w") as file:
    print("out")
    print("error", file=sys.stderr)
"""
    path = tmp_path / "file"
    command = (sys.executable, "-c", code, str(path))
    subprocess.run(["sh", "-c", f'exec "$@" {STREAMS_CLOSED[-1]}', "sh", *command], check=True)
    assert path.read_text() == ""


def test_a_configuration_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """Nothing of an endless one stays in memory; the error names the file and the bound."""
    path = tmp_path / "server.properties"
    path.write_bytes(b"#" * CONFIGURATION_BYTES_MAX)
    assert len(read_configuration_text(path)) == CONFIGURATION_BYTES_MAX
    with path.open("ab") as file:
        file.write(b"#")
    for each in (path, Path("/dev/zero")):
        with pytest.raises(StartError, match=f"--config: {each}: .* {CONFIGURATION_BYTES_MAX}"):
            read_configuration_text(each)


def test_output_that_cannot_be_written_is_one_clear_line() -> None:
    """A full disk is a fault, not a reader that has read enough."""
    for words in (("token", "--principal", "User:a"), ("--help",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "authorizerd.cli.main", *words],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        line = "authorizerd: standard output: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, line)


@pytest.mark.parametrize("command", ["serve", "doctor", "format"])
def test_what_a_shell_has_cut_off_an_override_is_not_shown(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a password."""
    jaas = "plain.sasl.jaas.config=PlainLoginModule required user_a=hunter2;"
    with pytest.raises(SystemExit):
        main([command, "--config", "c", "--override", *jaas.split()])
    said = capsys.readouterr().err
    assert "put each argument into quotes" in said
    assert "hunter2" not in said


def test_a_fault_is_one_line_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1: no directory, no log, no sense."""
    for path, said in (
        (tmp_path / "none", "no metadata log found"),
        (
            write_segment(tmp_path, 0, bytes(10) + b"\0\5" + bytes(88)),
            "expected a log directory, or a checkpoint",
        ),
        (tmp_path, "batch length 5 is less than a batch's header"),
    ):
        assert main(["acls", "--list", "--log-dir", str(path)]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("authorizerd: ")
        assert printed.err.count("\n") == 1
        assert said in printed.err


def test_everyone_cannot_be_explained(real: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``User:*`` is a fault of the question's, not a denial."""
    asked = ("--principal", "User:*", "--operation", "read", "--topic", "t")
    assert explain("--log-dir", real, *asked) == 1
    assert "User:*" in capsys.readouterr().err


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    """One place says it; what a report of a fault needs beside it follows."""
    with pytest.raises(SystemExit) as error:
        main(["--version"])
    assert error.value.code == 0
    ours, python, machine = capsys.readouterr().out.splitlines()
    assert ours == f"authorizerd {version('authorizerd')}"
    assert python == f"{platform.python_implementation()} {platform.python_version()}"
    assert machine == platform.platform()
