"""The commands that need no daemon, and the behaviour that all commands share."""

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from authorizerd.cli.configuration_file import CONFIGURATION_BYTES_MAX, read_configuration_text
from authorizerd.cli.errors import CommandError
from authorizerd.cli.main import main
from authorizerd.daemon.errors import StartError
from authorizerd.daemon.telemetry.build import read_build
from authorizerd.metadata.directory import METADATA_TOPIC_DIRECTORY
from tests.support.acls import acl
from tests.support.daemon_process import run
from tests.support.fixture_types import Capture
from tests.support.kafka_acls_output import bindings
from tests.support.log_files import added, removed, write_log, write_segment
from tests.support.printed import Printed, run_main
from tests.support.programs import run_program


@pytest.fixture
def real(real_log_dir: Path) -> Path:
    return real_log_dir


def listed(*arguments: str | Path) -> set[tuple[str, str]]:
    return bindings(run_main("acls", "--list", *arguments).out)


def test_acls_of_a_real_log_equal_the_list_of_kafka_acls(real: Path, capsys: Capture) -> None:
    expected = bindings((real / "acls-list.txt").read_text())
    assert len(expected) == 1751
    assert listed("--log-dir", real) == expected
    newest = max((real / METADATA_TOPIC_DIRECTORY).glob("*.checkpoint"))
    assert listed("--log-dir", newest) == expected


@pytest.mark.parametrize(
    "words", ["acls --list", "acls --list --as-of 3", "acls export", "who-can READ --topic t"]
)
def test_log_that_contradicts_itself_is_one_clear_error(words: str, tmp_path: Path) -> None:
    write_log(tmp_path, [added(1)], [removed(7)])
    error = run_main(*words.split(), "--log-dir", tmp_path, code=1).err
    assert f"{tmp_path}: the log contradicts itself: cannot remove" in error
    assert error.count("\n") == 1


def test_list_can_be_narrowed_by_resource_and_pattern_type(real: Path, capsys: Capture) -> None:
    everything = listed("--log-dir", real)
    pattern = "ResourcePattern(resourceType=TOPIC, name=fraud-out-228, patternType=LITERAL)"
    exact = {each for each in everything if each[0] == pattern}
    assert exact
    assert listed("--log-dir", real, "--topic", "fraud-out-228") == exact
    met = listed("--log-dir", real, "--topic", "fraud-out-228", "--resource-pattern-type", "match")
    assert exact < met < everything
    both = listed("--log-dir", real, "--topic", "fraud-out-228", "--cluster")
    assert both == exact | {each for each in everything if "resourceType=CLUSTER" in each[0]}


def test_list_by_principal_has_a_heading_for_each(real: Path) -> None:
    everything = listed("--log-dir", real)
    principals = ("User:orders-svc-27", "User:nobody")
    flags = [part for principal in principals for part in ("--principal", principal)]
    printed = run_main("acls", "--list", "--log-dir", real, *flags).out
    first, second = (f"ACLs for principal `{principal}`\n" for principal in principals)
    assert printed.startswith(first)
    assert printed.endswith(second)
    assert bindings(printed.removeprefix(first).removesuffix(second)) == {
        each for each in everything if f"(principal={principals[0]}," in each[1]
    }


def explain(*arguments: str | Path, code: int = 0) -> Printed:
    return run_main("explain", *arguments, code=code)


def test_explain_prints_the_decision_the_rule_and_the_offset(real: Path) -> None:
    asked = ("--log-dir", real, "--principal", "User:orders-svc-27", "--topic", "fraud-out-228")
    out = explain(*asked, "--operation", "create", "--host", "10.0.0.1").out
    assert out.startswith(
        "Principal = User:orders-svc-27 is Allowed operation = CREATE from host = 10.0.0.1"
    )
    assert "\nat log offset 3059, with 1751 ACLs\n" in out
    assert out.endswith(
        "\nwith super.users unknown, allow.everyone.if.no.acl.found unknown; pass --config FILE "
        "for the daemon's settings, or --super-users and --allow-everyone-if-no-acl-found\n"
    )
    assert out.count("StandardAcl[") == 2
    printed = explain(*asked, "--operation", "Alter-Configs", code=3)
    assert "based on rule DefaultDeny" in printed.out
    printed = explain(*asked, "--operation", "write", "--super-users", "User:orders-svc-27")
    assert "based on rule SuperUser" in printed.out


def test_explain_prints_the_origin_of_the_settings_it_uses(real: Path, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    lines = f"node.id=1\nlog.dirs={real}\nsuper.users=User:root\n"
    config.write_text(f"{lines}allow.everyone.if.no.acl.found=true\n")
    asked = ("--config", config, "--operation", "write", "--topic", "unheard-of")
    everyone = f"allow.everyone.if.no.acl.found=true ({config})\n"
    out = explain(*asked, "--principal", "User:root").out
    assert "based on rule SuperUser" in out
    assert out.endswith(f"\nwith super.users=User:root ({config}), {everyone}")
    explain(*asked, "--principal", "User:a", code=3)
    override = ("--override", "super.users=User:a")
    explain(*asked, "--principal", "User:a", *override)
    printed = explain(*asked, "--principal", "User:b", "--super-users", "User:b")
    assert "\nwith super.users=User:b (--super-users), allow" in printed.out
    other = ("--override", "authorizer.class.name=")
    printed = explain(*asked, "--principal", "User:a", *other, code=1)
    assert "this command answers by the rules of the built-in authorizer" in printed.err


@pytest.mark.parametrize(("changed", "said"), [
    (["--principal", "alice"],
     "--principal: expected Type:name, for example User:alice, found 'alice'"),
    (["--host", "localhost"], "--host: expected an IP address, found 'localhost'"),
    (["--host", "2001:db8::9%x"], "--host: expected an IP address, found '2001:db8::9%x'"),
    (["--operation", "wr\u0131te"], "--operation: unknown operation 'wr\u0131te'"),
    (["--operation", "fly"], "--operation: unknown operation 'fly': expected one of ALL, READ, "),
    (["--operation", "any"], "--operation: unknown operation 'any': expected one of ALL, READ, "),
    (["--group", "g"], "expected exactly one resource, found 2: use one of --topic, --group, "),
    (["--override", "a=b"], "--override: expected --config as well"),
    (["--super-users", "alice"], "--super-users: invalid entry 'alice': expected Type:name"),
    (["--principal", "User:*"], "--principal: User:* means everyone: ask about one principal"),
])  # fmt: skip
def test_invalid_arguments_of_explain_are_named(real: Path, changed: list[str], said: str) -> None:
    printed = explain(
        *("--log-dir", real, "--principal", "User:a", "--operation", "read", "--topic", "t"),
        *changed,
        code=2,
    )
    assert said in printed.err


@pytest.mark.parametrize("is_file", [True, False])
def test_words_that_a_shell_made_of_a_star_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, is_file: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b") if is_file else ("a",):
        (tmp_path / name).touch()
    with pytest.raises(SystemExit):
        main(["who-can", "read", "--topic", "a", "b"])
    hint = ": if the shell expanded a *, quote it"
    assert (hint in capsys.readouterr().err) is is_file


@pytest.mark.parametrize("command", ["who-can read", "acls export --to -"])
def test_name_that_a_shell_made_of_a_star_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / ".log", [added(1, acl(topic="a"))])
    (tmp_path / "a").touch()
    main([*command.split(), "--topic", "a", "--log-dir", ".log"])
    assert "warning: 'a' is also the only file in this directory" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "error"), [
    (["serv"], "authorizerd: unknown command 'serv' (did you mean serve?): expected one of "),
    (["wrker"], "authorizerd: unknown command 'wrker': expected one of "),
    ([], "authorizerd: the following arguments are required: COMMAND"),
    (["serve"], "authorizerd serve: the following arguments are required: --config"),
    (["explain", "--topic"], "authorizerd explain: argument --topic: expected one argument"),
    (["check-log"], "authorizerd check-log: the following arguments are required: directory"),
    (["doctor", "--jsn"], "authorizerd doctor: unrecognized arguments: --jsn"),
    (["--foo"], "authorizerd: unrecognized arguments: --foo"),
    (["acls", "apply", "p", "--log-dir", "d"],
     "authorizerd acls apply: --log-dir: a plan is carried out by a server: start"),
    (["acls", "remove", "--log-dir", "d"],
     "authorizerd acls remove: --log-dir: a plan is carried out by a server: start"),
    (["--foo=secret"], "authorizerd: unrecognized arguments: --foo"),
    (["serve", "--ready"], "authorizerd serve: argument --ready-file: expected one argument"),
    (["serve", "--ready", "f"], "authorizerd serve: the following arguments are required"),
    (["serve", "--override", "a=b", "--x"], "authorizerd serve: unrecognized arguments: quote"),
    (["token", "--principal", "User:a", "x"], "authorizerd: unrecognized arguments: x"),
    (["serve", "--config", "c", "--quick"], "authorizerd: unrecognized arguments: --quick"),
])  # fmt: skip
def test_invalid_words_print_the_error_and_name_the_help(words: list[str], error: str) -> None:
    code = 1 if words[:1] in (["check-log"], ["doctor"]) else 2
    first, second = run_main(*words, code=code).err.splitlines()
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
STREAMS_CLOSED = (">&-", "2>&-", "<&- >&- 2>&-")
WRAPPERS = (
    (sys.executable, "-c", READER_LEAVES),
    *(("sh", "-c", f'exec "$@" {closed}', "sh") for closed in STREAMS_CLOSED),
)


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=("reader leaves", *STREAMS_CLOSED))
@pytest.mark.parametrize(("words", "code"), [
    ("doctor --config {config}", 2),
    ("check-log {log}", 0),
    ("acls --list --log-dir {log}", 0),
    ("explain --log-dir {log} --principal User:a --operation read --topic t", 3),
    ("serve --config {config}", 1),
    ("--help", 0),
    ("replay usage --logs {log}/kafka-authorizer.log.xz --acls {log} --assume-in-force"
     " --engine local --out {out}", 0),
])  # fmt: skip
def test_lost_standard_stream_does_not_change_the_exit_code(
    real: Path, tmp_path: Path, wrapper: tuple[str, ...], words: str, code: int
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=x\n")
    command = words.format(config=config, log=real, out=tmp_path / "out").split()
    done = run_program(*wrapper, sys.executable, "-m", "authorizerd.cli.main", *command)
    assert done.returncode == code, done.stderr
    assert "Broken pipe" not in done.stderr
    assert "Traceback" not in done.stderr


def test_no_file_gets_the_descriptor_of_a_closed_stream(tmp_path: Path) -> None:
    """Otherwise the file would receive the output."""
    code = """
import sys
from authorizerd.cli.program.standard_streams import tolerate_lost_readers
tolerate_lost_readers()
with open(sys.argv[1], "w") as file:
    print("out")
    print("error", file=sys.stderr)
"""
    path = tmp_path / "file"
    command = (sys.executable, "-c", code, str(path))
    subprocess.run(["sh", "-c", f'exec "$@" {STREAMS_CLOSED[-1]}', "sh", *command], check=True)
    assert path.read_text() == ""


def test_signal_in_a_nursery_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task may have failed with a known error at the same time."""

    def run(_: object) -> int:
        raise BaseExceptionGroup("", [CommandError("no answer"), KeyboardInterrupt()])

    monkeypatch.setattr("authorizerd.cli.commands.run_acls", run)
    with pytest.raises(KeyboardInterrupt):
        main(["acls"])


def test_oversized_configuration_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"#" * CONFIGURATION_BYTES_MAX)
    assert len(read_configuration_text(path)) == CONFIGURATION_BYTES_MAX
    with path.open("ab") as file:
        file.write(b"#")
    for each in (path, Path("/dev/zero")):
        with pytest.raises(StartError, match=f"--config: {each}: .* {CONFIGURATION_BYTES_MAX}"):
            read_configuration_text(each)


@pytest.mark.parametrize("command", ["serve", "format"])
def test_each_error_of_the_configuration_is_a_line(command: str, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=x\nauthorizerd.audit.mask.host=hash\nauthorizerd.consol=true\n")
    done = run(command, "--config", path, "--override", "listeners=")
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.split(": ")[:3] for line in done.stderr.splitlines()] == [
        ["authorizerd", f"{path}:1", "node.id"],
        ["authorizerd", f"{path}:2", "authorizerd.audit.mask.host"],
        ["authorizerd", f"{path}:3", "authorizerd.consol"],
        ["authorizerd", "--override", "listeners"],
        ["authorizerd", f"{path}", "log.dirs"],
    ]


def test_full_disk_under_standard_output_prints_one_line() -> None:
    for words in (("token", "--principal", "User:a"), ("--help",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "authorizerd.cli.main", *words], stdout=full,
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        line = "authorizerd: standard output: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, line)


JAAS = "plain.sasl.jaas.config=PlainLoginModule required user_a=hunter2;"
SCRAM = "SCRAM-SHA-256=[name=a,password="


@pytest.mark.parametrize(("command", "words"), [
    *((command, ["--override", *JAAS.split()]) for command in ("serve", "doctor", "format")),
    ("format", ["--add-scram", "SCRAM-SHA-256=[name=a,", "password=hunter2]"]),
    ("format", [f"--add-scram={SCRAM}x", "y", "--override", "a=b", "hunter2]"]),
    ("format", ["hunter2]", f"--add-scram={SCRAM}x]", "--hunter2"]),
])  # fmt: skip
def test_words_split_off_a_secret_are_not_shown(command: str, words: list[str]) -> None:
    printed = run_main(command, "--config", "none", *words, code=1 if command == "doctor" else 2)
    assert "quote each argument" in printed.err
    assert "hunter2" not in printed.out + printed.err


def test_unreadable_log_prints_one_line_on_standard_error(tmp_path: Path) -> None:
    for path, said in (
        (
            tmp_path / "none",
            "Name the log directory or a .checkpoint file (for ACLs in other files, name each",
        ),
        (
            write_segment(tmp_path, 0, bytes(10) + b"\0\5" + bytes(88)),
            "expected a log directory, or a checkpoint",
        ),
        (tmp_path, "expected a batch length of at least 49, found 5"),
    ):
        printed = run_main("acls", "--list", "--log-dir", path, code=1)
        assert printed.out == ""
        assert printed.err.startswith("authorizerd: ")
        assert printed.err.count("\n") == 1
        assert said in printed.err


def test_version_prints_distribution_python_and_platform() -> None:
    ours, python, machine = run_main("--version").out.splitlines()
    assert ours == f"authorizerd {version('authorizerd')} (build {read_build()})"
    assert python == f"{platform.python_implementation()} {platform.python_version()}"
    assert machine == platform.platform()


def test_configuration_of_a_follower_is_not_formatted(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        f"log.dirs={tmp_path / 'copy'}\ncontroller.quorum.bootstrap.servers=c:1\n"
        "controller.listener.names=CONTROLLER\n"
    )
    assert "follows a cluster" in run_main("format", "--config", path, code=1).err
    assert not (tmp_path / "copy").exists()
