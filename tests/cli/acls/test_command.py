"""``authorizerd acls`` compared with recorded output of kafka-acls, and its own features."""

from __future__ import annotations

import io
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from authorizerd.acl.as_of import AsOf
from authorizerd.acl.errors import InvalidAclError
from authorizerd.acl.filters import accepts
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.model import Acl, AclFilter
from authorizerd.acl.validation import validate_filter, validate_new_acl, validate_resource
from authorizerd.cli.acls.command import OpenLog, run_acl_command
from authorizerd.cli.acls.errors import configuration_error, request_error
from authorizerd.cli.acls.runner import AclReader, Removed, Terminal
from authorizerd.daemon.telemetry.build import describe_version
from authorizerd.kafka_client.client import ClientSettings
from authorizerd.management.formats.document import read_json
from authorizerd.protocol.kafka.error_codes import ApiError, ErrorCode
from tests.conformance.acl_command_cases import STORIES
from tests.conformance.acl_command_stories import Printed, comparable, recorded
from tests.support.acls import acl

RECORDED = Path(__file__).parents[2] / "data" / "kafka-acls"
CONNECTION = ("--bootstrap-server", "localhost:9092", "--command-config")

ALICE = acl("User:alice", "READ", topic="orders")
BOB = acl("User:bob", "READ", topic="orders")


class FakeServer:
    """A server in memory that validates as Kafka does, and records the changes requested."""

    def __init__(self, *acls: Acl) -> None:
        self.acls = set(acls)
        self.changes: list[str] = []
        self.error: ApiError | None = None
        self.opened: list[ClientSettings] = []

    @asynccontextmanager
    async def open(
        self, settings: ClientSettings, warn: Callable[[str], None]
    ) -> AsyncIterator[FakeServer]:
        self.opened.append(settings)
        if settings.bootstrap[0].host.endswith(".invalid"):
            warn("nobody knows it")
            raise configuration_error("No resolvable bootstrap urls given in bootstrap.servers")
        yield self

    async def describe(self, filter: AclFilter) -> list[Acl]:
        validate_filter(filter)
        return [acl for acl in self.acls if accepts(filter, acl)]

    async def create(self, acls: Sequence[Acl]) -> None:
        self.changes.append(f"create {len(acls)}")
        if self.error is not None:
            raise request_error(self.error)
        try:
            for acl in acls:
                validate_resource(acl)
                validate_new_acl(acl)
                self.acls.add(acl)
        except InvalidAclError as error:
            raise request_error(ApiError(ErrorCode.INVALID_REQUEST, str(error))) from error

    async def delete(self, filters: Sequence[AclFilter]) -> Removed:
        self.changes.append(f"delete {len(filters)}")
        if self.error is not None:
            raise request_error(self.error)
        removed = {acl for acl in self.acls for each in filters if accepts(each, acl)}
        self.acls -= removed
        return Removed(len(removed))


def no_log(path: Path, as_of: AsOf | None) -> AclReader:
    raise AssertionError(f"{path} was opened")


def run(
    server: FakeServer, words: Sequence[str], answers: str = "", open_log: OpenLog = no_log
) -> Printed:
    out, error = io.StringIO(), io.StringIO()
    terminal = Terminal(answers=io.StringIO(answers), out=out, error=error)
    code = run_acl_command(words, terminal, open_log=open_log, open_server=server.open)
    return Printed(out=out.getvalue(), error=error.getvalue(), code=code)


def given(server: FakeServer, arguments: str, answers: str = "") -> Printed:
    words = shlex.split(arguments)
    return run(server, [*words, "--bootstrap-server", "localhost:9092"], answers)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("out", "printed"), [
    (Screen(), "ACLs:\n\t(principal=User:\\x1b[31m\\u202ea)\n"),
    (io.StringIO(), "ACLs:\n\t(principal=User:\x1b[31m\u202ea)\n"),
])  # fmt: skip
def test_only_a_terminal_gets_escapes(out: io.StringIO, printed: str) -> None:
    terminal = Terminal(answers=io.StringIO(), out=out, error=io.StringIO())
    terminal.tell("ACLs:\n\t(principal=User:\x1b[31m\u202ea)\n")
    assert out.getvalue() == printed


@pytest.mark.parametrize("name", STORIES)
def test_story_prints_what_kafka_acls_printed(name: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\n")
    cases = STORIES[name]
    expected = recorded((RECORDED / f"{name}.txt").read_text(encoding="utf-8"))
    assert len(cases) == len(expected)
    server = FakeServer()
    for case, printed in zip(cases, expected, strict=True):
        words = (*CONNECTION, str(config)) if case.connected else ()
        ours = run(server, [*words, *shlex.split(case.arguments)], case.answers)
        assert comparable(ours) == comparable(printed), case.arguments
    assert not server.acls


def test_recordings_match_the_stories() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt")} == set(STORIES)
    for name, cases in STORIES.items():
        lines = (RECORDED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        commands = [line[2:] for line in lines if line.startswith("$ ")]
        assert commands == [case.arguments for case in cases]


QUESTIONS = "Are you sure `a`? (y/n)\nAre you sure `b`? (y/n)\n"


@pytest.mark.parametrize(("out", "error", "code"), [
    ("Are you sure `b`? (y/n)\nAre you sure `a`? (y/n)\n", "", 0),
    (QUESTIONS.removesuffix("\n"), "", 0),
    (QUESTIONS, "no", 0),
    (QUESTIONS, "", 1),
])  # fmt: skip
def test_comparison_notices_a_difference(out: str, error: str, code: int) -> None:
    changed = Printed(out=out, error=error, code=code)
    assert comparable(changed) != comparable(Printed(out=QUESTIONS, error="", code=0))


def test_comparison_ignores_only_the_order_of_hash_tables() -> None:
    one, two = (f"Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name={name}, "
                "patternType=LITERAL)`:\n" for name in "ab")  # fmt: skip
    first, second = "\t(principal=User:a)\n", "\t(principal=User:b)\n"
    alice, bob = (f"ACLs for principal `User:{name}`\n" for name in ("alice", "bob"))
    original = Printed(out=alice + one + first + second + "\n" + two + "\n" + bob, error="", code=0)
    same = Printed(out=bob + alice + two + "\n" + one + second + first + "\n", error="", code=0)
    moved = Printed(out=alice + one + first + "\n" + two + second + "\n" + bob, error="", code=0)
    assert comparable(original) == comparable(same)
    assert comparable(original) != comparable(moved)


def test_error_of_the_server_ends_the_command() -> None:
    server = FakeServer()
    server.error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "No.")
    printed = given(server, "--add --topic a --topic b --allow-principal User:alice")
    assert printed == Printed(
        out=(
            "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=a, "
            "patternType=LITERAL)`: \n"
            " \t(principal=User:alice, host=*, operation=ALL, permissionType=ALLOW)\n\n"
            "Error while executing ACL command: "
            "org.apache.kafka.common.errors.ClusterAuthorizationException: No.\n"
            "java.util.concurrent.ExecutionException: "
            "org.apache.kafka.common.errors.ClusterAuthorizationException: No.\n"
            "Caused by: org.apache.kafka.common.errors.ClusterAuthorizationException: No.\n\n"
        ),
        error="",
        code=1,
    )
    assert server.changes == ["create 1"]


def test_each_group_is_one_request_with_only_the_missing_acls() -> None:
    server = FakeServer(ALICE)
    given(server, "--add --topic orders --allow-principal User:alice --operation Read")
    assert server.changes == []
    people = "--allow-principal User:alice --allow-principal User:bob --operation Read"
    given(server, f"--add --topic orders --topic returns {people}")
    assert server.changes == ["create 1", "create 2"]
    server.changes.clear()
    given(server, f"--remove --force --topic orders --topic returns {people}")
    given(server, "--remove --force --topic orders")
    assert server.changes == ["delete 2", "delete 2", "delete 1"]


def test_end_of_input_at_a_question_is_an_error() -> None:
    server = FakeServer(ALICE, BOB)
    printed = given(server, "--remove --topic orders --topic returns", "y\n")
    assert printed.code == 1
    assert printed.out.count("? (y/n)\n") == 2
    assert "Error while executing ACL command: the question was not answered\n" in printed.out
    assert server.changes == ["delete 1"]


def test_answer_may_end_with_a_carriage_return() -> None:
    for answers, left in (("n\r\n", 1), ("y\r\n", 0)):
        server = FakeServer(ALICE)
        given(server, "--remove --topic orders", answers)
        assert len(server.acls) == left


def test_warning_is_printed_on_standard_error() -> None:
    printed = run(FakeServer(), ["--list", "--bootstrap-server", "x.invalid:9092"])
    assert printed.error == "authorizerd: nobody knows it\n"


def test_addition_warns_of_each_surprise_once_on_standard_error() -> None:
    """The output and the change are those of kafka-acls."""
    server = FakeServer()
    flags = "--operation read --operation write --allow-host a.example --topic t --topic 'u*'"
    printed = given(server, f"--add --allow-principal user:alice {flags}")
    warnings = printed.error.splitlines()
    assert [line.split(": ")[:2] for line in warnings] == 3 * [["authorizerd", "warning"]]
    for said in ("the type User", "host 'a.example' never matches", "name 'u*'"):
        assert sum(said in line for line in warnings) == 1
    assert len(server.acls) == 4
    assert "warning" not in printed.out
    assert printed.code == 0


@pytest.mark.parametrize("command", ["--list", "--remove --force"])
def test_only_an_addition_warns_of_acls(command: str) -> None:
    assert "warning" not in given(FakeServer(), f"{command} --topic 'u*'").error


def test_removal_of_a_principals_acls_is_named() -> None:
    error = given(FakeServer(), "--remove --principal User:alice --topic t").error
    assert error.splitlines()[1:] == [
        "To remove all ACLs of a principal, run 'authorizerd acls remove --principal'."
    ]


def test_removal_says_how_many_acls_it_has_removed() -> None:
    server = FakeServer(ALICE, BOB, acl("User:alice", "READ", topic="orders-", pattern="PREFIXED"))
    flags = "--topic orders --topic none --group g --resource-pattern-type any"
    printed = given(server, f"--remove {flags}", "y\nn\ny\n")
    assert printed.error.splitlines() == [
        "authorizerd: 0 ACLs removed: topic none, ANY",
        "authorizerd: 0 ACLs removed: group g, ANY",
    ]
    printed = given(server, f"--remove --force {flags.replace('any', 'match')}")
    assert "authorizerd: 2 ACLs removed: topic orders, MATCH\n" in printed.error
    assert "removed" not in printed.out
    assert given(server, "--remove --force --topic 'a\x1bb'").error.endswith(
        "topic a\\x1bb, LITERAL\n"
    )


@pytest.mark.parametrize(("files", "words", "said"), [
    (["a", "b"], "--topic a b", "these words belong to no flag, and are ignored: 'b'; quote * and"),
    ([], "--topic a 1 2 3 4 5 6 --list",
     "and are ignored: '1' '2' '3' '4' '5', and more; quote * and"),
    (["a"], "--topic a", "'a' is also the only file in this directory: if the shell expanded"),
    ([], "--principal User:CN=a, O=b", "ignored: 'O=b'; quote * and values that contain"),
    (["a", ".b"], "--group a", "'a' is also the only file in this directory"),
    (["a", "b"], "--topic a", None),
    (["b"], "--topic a", None),
    ([], "--topic a", None),
    (["a"], "--topic '*'", None),
])  # fmt: skip
def test_words_that_a_shell_made_of_a_star_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], words: str, said: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in files:
        (tmp_path / name).touch()
    error = given(FakeServer(ALICE), words if "--list" in words else f"--list {words}").error
    assert error.startswith("authorizerd: warning: ") is (said is not None)
    assert (said or "") in error


@pytest.mark.parametrize(("words", "advice"), [
    (["--bootstrap-server", "x"], "expected HOST:PORT, for example localhost:9092; "),
    (["--bootstrap-server", "h:1", "--command-config", "/none"],
     "--command-config: /none: no such file\n"),
    (["--bootstrap-server", "h:1", "--command-config", "/"],
     "--command-config: /: Is a directory\n"),
])  # fmt: skip
def test_advice_is_printed_on_standard_error(words: list[str], advice: str) -> None:
    printed = run(FakeServer(), ["--list", *words])
    assert printed.error.startswith(f"authorizerd: {advice}")
    assert printed.out.startswith("Error while executing ACL command: ")
    assert (printed.out.endswith("\n\n"), printed.code) == (True, 1)


@pytest.mark.parametrize(("words", "error"), [
    (["--lst"], "lst is not a recognized option"),
    (["--list"], "One of --bootstrap-server or --bootstrap-controller must be specified"),
    (["--add", "--bootstrap-server", "h:1"], "You must provide at least one resource: "),
])  # fmt: skip
def test_invalid_flags_print_the_error_and_name_the_help(words: list[str], error: str) -> None:
    printed = run(FakeServer(), words)
    assert (printed.out, printed.code) == ("", 1)
    [first, second] = printed.error.splitlines()
    assert first.startswith(error)
    assert second == "Run 'authorizerd acls --help' for the flags."


def test_connection_settings_come_from_the_flags() -> None:
    server = FakeServer()
    words = shlex.split("--list --bootstrap-controller localhost:9093,[::1]:9094")
    assert run(server, words).code == 0
    [settings] = server.opened
    assert settings.to_controllers
    assert [str(address) for address in settings.bootstrap] == ["localhost:9093", "[::1]:9094"]


class Interrupted(FakeServer):
    """The signal arrives during the second request to change ACLs."""

    async def create(self, acls: Sequence[Acl]) -> None:
        if self.changes:
            raise KeyboardInterrupt
        await super().create(acls)

    async def delete(self, filters: Sequence[AclFilter]) -> Removed:
        if self.changes:
            raise KeyboardInterrupt
        return await super().delete(filters)


@pytest.mark.parametrize(
    "flags", ["--add --allow-principal User:a --operation Read", "--remove --force"]
)
def test_interrupted_change_is_explained(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        given(Interrupted(), f"{flags} --topic a --topic b --topic c")
    assert capsys.readouterr().err == (
        "authorizerd: interrupted: 1 of 3 resource patterns changed as asked; it is not known "
        "whether the last request was carried out. Run the command again: it continues with what "
        "is missing\n"
    )


def test_version_is_that_of_authorizerd() -> None:
    printed = run(FakeServer(), ["--version"])
    assert printed == Printed(out=f"{describe_version()}\n", error="", code=0)


def test_log_is_listed_without_a_server(tmp_path: Path) -> None:
    server, log = FakeServer(), FakeServer(ALICE, BOB)
    opened: list[tuple[Path, AsOf | None]] = []

    def open_log(path: Path, as_of: AsOf | None) -> AclReader:
        opened.append((path, as_of))
        return log

    for flags in ("", "--topic orders", "--principal User:bob", "--topic nothing"):
        words = ["--list", *shlex.split(flags)]
        ours = run(server, [*words, "--log-dir", str(tmp_path)], open_log=open_log)
        assert ours == given(log, shlex.join(words))
    assert opened == [(tmp_path, None)] * 4
    assert run(server, ["--list", "--log-dir", "l", "--as-of", "7"], open_log=open_log).code == 0
    assert opened[4:] == [(Path("l"), AsOf(offset=7))]
    assert not server.opened


@pytest.mark.parametrize(("words", "said"), [
    ("--list --bootstrap-server a:1 --as-of 7", "only available if --log-dir is set"),
    ("--list --log-dir l --as-of 2026-01-01", "--as-of: '2026-01-01' has no time zone"),
])  # fmt: skip
def test_moment_that_cannot_be_listed_is_named(words: str, said: str) -> None:
    printed = run(FakeServer(), words.split())
    assert (printed.code, said in printed.error) == (1, True)


@pytest.mark.parametrize(("columns", "longest"), [("40", 66), ("80", 80), ("200", 100)])
def test_help_fits_the_terminal(
    columns: str, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    printed = run(FakeServer(), ["--help"]).error
    assert longest - 5 < max(map(len, printed.splitlines())) <= longest


def test_help_lists_every_flag_of_kafka_acls_and_ours() -> None:
    printed = run(FakeServer(), ["--help"])
    flags = {line.split()[0] for line in printed.error.splitlines() if line.startswith("--")}
    assert flags == {
        *("--as-of", "--add", "--allow-host", "--allow-principal", "--bootstrap-controller"),
        *("--bootstrap-server", "--cluster", "--command-config", "--consumer"),
        *("--delegation-token", "--deny-host", "--deny-principal", "--force", "--group"),
        *("--help", "--idempotent", "--list", "--operation", "--principal", "--producer"),
        *("--remove", "--resource-pattern-type", "--topic", "--transactional-id"),
        *("--user-principal", "--version"),
        *("--json", "--log-dir"),
    }
    assert max(map(len, printed.error.splitlines())) <= 100


_GRANT = Grant(
    id="1", acl=ALICE, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="INC-1"
)


def test_adding_the_acl_of_a_grant_says_that_it_ends() -> None:
    waiting = replace(_GRANT, acl=BOB, is_waiting=True)
    server = FakeServer(ALICE, BOB, make_grant_note(_GRANT), make_grant_note(waiting))
    add = "--add --topic orders --operation read --allow-principal User:alice"
    printed = given(server, f"{add} --allow-principal User:bob")
    assert "already exists" in printed.out
    assert printed.error == (
        "authorizerd: warning: this ACL exists, and still ends: grant of READ on topic literal "
        "`orders` to User:alice until 2033-05-18 03:33:20 UTC, by User:ops: INC-1; to keep it, use "
        "'authorizerd acls grant --permanent'\n"
    )
    server.acls -= {make_grant_note(_GRANT)}
    assert not given(server, add).error


@pytest.mark.parametrize("flags", ["", "--topic orders", "--principal User:alice"])
def test_a_json_listing_of_a_grant_has_its_note(flags: str) -> None:
    of_bob = make_grant_note(replace(_GRANT, acl=BOB))
    other = acl("User:carol", topic="others")
    server = FakeServer(ALICE, BOB, other, make_grant_note(_GRANT), of_bob)
    listed = set(read_json(given(server, f"--list --json {flags}").out).acls)
    theirs = {ALICE, make_grant_note(_GRANT)}
    if "alice" not in flags:
        theirs |= {BOB, of_bob}
    if not flags:
        theirs.add(other)
    assert listed == theirs


def test_a_listing_for_people_says_what_notes_are() -> None:
    server = FakeServer(ALICE, make_grant_note(_GRANT))
    listed = given(server, "--list")
    assert "principal=Authorizerd:note" in listed.out
    assert "allow and deny nothing" in listed.error
    assert not given(server, "--list --topic orders").error
