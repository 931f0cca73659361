"""Where the ACLs are: the flags, the origin of each setting, and what the sources tell."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS, KnownSettings
from authorizerd.acl.releases import ANY_RELEASE, RULES_4_3, RULES_4_4, ReleaseRules
from authorizerd.cli.acl_source import AclSource, Place, add_source_arguments, read_source
from authorizerd.cli.broker_acls import BrokerAnswer
from authorizerd.cli.errors import CommandError
from authorizerd.cli.program.command_parser import CommandParser
from authorizerd.cli.source_settings import Origin
from authorizerd.image.changes import FeatureLevel, TopicAdded, TopicRemoved
from authorizerd.metadata.errors import PastRangeError
from tests.support.acls import acl, snapshot_of
from tests.support.fixture_types import Capture
from tests.support.foreign_records import node
from tests.support.log_files import added, write_log

ROOT = frozenset({"User:root"})
TOPICS = [TopicAdded(name, name.encode() * 16) for name in "bac"]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Write a log with an ACL, and topics of which one is removed."""
    write_log(tmp_path / "log", [added(1)], TOPICS, [TopicRemoved(b"a" * 16)])
    return tmp_path / "log"


@pytest.fixture
def config(tmp_path: Path, log_dir: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=1\nlog.dirs={log_dir}\nsuper.users=User:root\n")
    return path


def no_broker(servers: str, command_config: str | None) -> BrokerAnswer:
    raise AssertionError(f"{servers} was asked")


class Brokers:
    """Brokers that give one answer, and record what they were asked."""

    def __init__(self, values: Mapping[str, str | None], failure: str = "") -> None:
        self.answer = BrokerAnswer(snapshot_of(acl(), acl("User:b")), ("t",), values, failure)
        self.asked: list[tuple[str, str | None]] = []

    def read(self, servers: str, command_config: str | None) -> BrokerAnswer:
        self.asked.append((servers, command_config))
        return self.answer


def opened(*words: str | Path, brokers: Brokers | None = None) -> AclSource:
    parser = CommandParser(prog="command")
    add_source_arguments(parser)
    arguments: argparse.Namespace = parser.parse_args([*map(str, words)])
    with pytest.MonkeyPatch.context() as patch:
        read = no_broker if brokers is None else brokers.read
        patch.setattr("authorizerd.cli.broker_acls.read_brokers", read)
        return read_source(arguments)


def origins(source: AclSource) -> list[Origin]:
    return [each.origin for each in source.stated]


def test_log_gives_acls_topics_and_offset(log_dir: Path) -> None:
    source = opened("--log-dir", log_dir)
    assert len(source.snapshot.acls) == 1
    assert source.topics == ("b", "c")
    assert (source.place, source.name, source.offset) == (Place.LOG, str(log_dir), 6)
    assert source.settings == KnownSettings(None, None)
    assert [*source.describe()] == [
        "at log offset 6, with 1 ACL",
        "with super.users unknown, allow.everyone.if.no.acl.found unknown; "
        "pass --config FILE for the daemon's settings, or --super-users and "
        "--allow-everyone-if-no-acl-found",
    ]


def test_configuration_gives_the_log_and_the_settings(config: Path, log_dir: Path) -> None:
    source = opened("--config", config)
    assert source.name == str(log_dir)
    assert source.settings == KnownSettings(ROOT, False)
    assert origins(source) == [Origin.FILE, Origin.FILE]
    assert [*source.describe()][1] == (
        f"with super.users=User:root ({config}), allow.everyone.if.no.acl.found=false ({config})"
    )
    other = opened("--config", config, "--override", "super.users=User:a;User:b")
    assert other.settings.super_users == frozenset({"User:a", "User:b"})


def test_log_directory_takes_precedence_over_that_of_the_configuration(
    config: Path, log_dir: Path, tmp_path: Path
) -> None:
    write_log(tmp_path / "other")
    source = opened("--config", config, "--log-dir", tmp_path / "other")
    assert len(source.snapshot.acls) == 0
    assert source.settings.super_users == ROOT


def test_flags_take_precedence_over_every_other_origin(config: Path) -> None:
    flags = ("--super-users", "User:x", "--allow-everyone-if-no-acl-found")
    expected = KnownSettings(frozenset({"User:x"}), True)
    brokers = Brokers({SUPER_USERS: "User:root"})
    for source in (
        opened("--config", config, *flags),
        opened("--bootstrap-server", "a:1", *flags, brokers=brokers),
    ):
        assert source.settings == expected
        assert origins(source) == [Origin.FLAG, Origin.FLAG]


@pytest.mark.parametrize(("values", "failure", "expected", "shown"), [
    ({SUPER_USERS: "User:root", ALLOW_EVERYONE: "true"}, "", KnownSettings(ROOT, True),
     "with super.users=User:root (broker a:1), "
     "allow.everyone.if.no.acl.found=true (broker a:1)"),
    ({SUPER_USERS: None}, "", KnownSettings(None, False),
     "with super.users unknown (it is set, but the broker does not show its value), "
     "allow.everyone.if.no.acl.found=false (broker a:1); pass --super-users"),
    ({}, "no right", KnownSettings(None, None),
     "with super.users unknown (no right), " "allow.everyone.if.no.acl.found unknown (no right); "
     "pass --super-users and --allow-everyone-if-no-acl-found"),
])  # fmt: skip
def test_settings_of_a_broker_are_known_or_unknown(
    values: Mapping[str, str | None], failure: str, expected: KnownSettings, shown: str
) -> None:
    brokers = Brokers(values, failure)
    source = opened("--bootstrap-server", "a:1", "--command-config", "c", brokers=brokers)
    assert brokers.asked == [("a:1", "c")]
    assert source.settings == expected
    assert source.topics == ("t",)
    assert (source.place, source.name, source.offset) == (Place.BROKERS, "a:1", None)
    assert [*source.describe()] == ["as listed by a:1, with 2 ACLs", shown]


@pytest.mark.parametrize(("flag", "expected"), [
    ("--super-users=", KnownSettings(frozenset(), None)),
    ("--super-users=User:root", KnownSettings(ROOT, None)),
    ("--allow-everyone-if-no-acl-found", KnownSettings(None, True)),
    ("--allow-everyone-if-no-acl-found=true", KnownSettings(None, True)),
    ("--allow-everyone-if-no-acl-found=false", KnownSettings(None, False)),
])  # fmt: skip
def test_flag_sets_only_its_setting(log_dir: Path, flag: str, expected: KnownSettings) -> None:
    assert opened("--log-dir", log_dir, flag).settings == expected


def test_file_that_was_read_in_part_says_so(tmp_path: Path, capsys: Capture) -> None:
    """Standard output alone shows that the answer is not that of all ACLs."""
    values = {
        "resource_name": "t", "resource_type": "Topic", "resource_pattern_type_filter": "Literal",
        "acl_principal": "User:a", "acl_host": "*", "acl_operation": "Read",
        "acl_permission_type": "Allow",
    }  # fmt: skip
    resources = [
        {"address": f"{kind}.a", "type": kind, "mode": "managed", "values": values}
        for kind in ("kafka_acl", "redpanda_acl")
    ]
    planned = {"root_module": {"resources": resources}}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"format_version": "1.2", "planned_values": planned}))
    source = opened("--acls", path)
    acls, _ = source.describe()
    assert source.document["unread"] == 1
    assert acls == f"as listed by {path}, with 1 ACL; 1 part not read: see the warnings"
    assert "redpanda_acl is not read" in capsys.readouterr().err


@pytest.mark.parametrize(("told", "flags", "expected", "shown"), [
    (None, (), ROOT, "super.users=User:root (profile {path})"),
    ("User:told", (), {"User:told"}, "super.users=User:told (broker a:1)"),
    (None, ("--super-users=",), set(), "super.users= (--super-users)"),
])  # fmt: skip
def test_profile_says_what_the_brokers_hide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None, flags: tuple[str, ...],
    expected: frozenset[str], shown: str,
) -> None:  # fmt: skip
    path = tmp_path / "profile.properties"
    path.write_text(f"bootstrap.servers=a:1\n{SUPER_USERS}=User:root\n{ALLOW_EVERYONE} = true \n")
    monkeypatch.setenv("AUTHORIZERD_PROFILE", str(path))
    brokers = Brokers({SUPER_USERS: told, ALLOW_EVERYONE: None})
    source = opened(*flags, brokers=brokers)
    assert source.settings == KnownSettings(frozenset(expected), True)
    assert shown.format(path=path) in source.describe_settings()
    path.write_text(f"bootstrap.servers=a:1\n{ALLOW_EVERYONE}=yes\n")
    with pytest.raises(CommandError, match=r"^profile .*: allow\.everyone.*'yes'"):
        opened(brokers=brokers)


def test_profile_says_nothing_about_another_place(
    tmp_path: Path, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profile").write_text(f"bootstrap.servers=a:1\n{SUPER_USERS}=User:root\n")
    monkeypatch.setenv("AUTHORIZERD_PROFILE", str(tmp_path / "profile"))
    assert opened("--log-dir", log_dir).settings == KnownSettings(None, None)
    brokers = Brokers({SUPER_USERS: None})
    assert opened("--bootstrap-server", "b:1", brokers=brokers).settings.super_users is None


def test_invalid_setting_of_a_broker_is_named() -> None:
    brokers = Brokers({SUPER_USERS: "root"})
    with pytest.raises(
        CommandError, match=r"^broker a:1: super\.users: .*'root': expected Type:name"
    ):
        opened("--bootstrap-server", "a:1", brokers=brokers)


def test_invalid_setting_of_a_broker_is_not_blamed_on_a_flag() -> None:
    brokers = Brokers({ALLOW_EVERYONE: "yes"})
    with pytest.raises(CommandError, match=r"^broker a:1: allow\.everyone.*'yes'"):
        opened("--bootstrap-server", "a:1", "--super-users", "User:a", brokers=brokers)


def test_other_authorizer_in_the_configuration_is_rejected(config: Path) -> None:
    with pytest.raises(CommandError, match=r"authorizer\.class\.name: expected org"):
        opened("--config", config, "--override", "authorizer.class.name=")


@pytest.mark.parametrize(("words", "said"), [
    ([], "expected --log-dir DIR, --acls FILE, --config FILE, whose log directory is read, or"),
    (["--bootstrap-server", "a:1", "--log-dir", "l"],
     "--log-dir: expected either --log-dir or --bootstrap-server, found both"),
    (["--bootstrap-server", "a:1", "--config", "c"],
     "--config: expected either --config or --bootstrap-server, found both"),
    (["--log-dir", "l", "--command-config", "c"],
     "--command-config: expected --bootstrap-server as well"),
    (["--log-dir", "l", "--override", "a=b"], "--override: expected --config as well"),
    (["--log-dir", "l", "--super-users", "alice"],
     "--super-users: invalid entry 'alice': expected Type:name"),
    (["--log-dir", "l", "--allow-everyone-if-no-acl-found", "maybe"],
     "--allow-everyone-if-no-acl-found: expected true or false, found 'maybe'"),
    (["--bootstrap-server", "a:1", "--as-of", "1"],
     "--as-of: expected --log-dir or --config: brokers do not list ACLs of the past"),
    (["--log-dir", "l", "--as-of", "2026-01-01"], "--as-of: '2026-01-01' has no time zone"),
])  # fmt: skip
def test_flags_that_do_not_fit_are_named(words: list[str], said: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as error:
        opened(*words)
    assert error.value.code == 2
    assert capsys.readouterr().err.startswith(f"command: {said}")


@pytest.mark.parametrize("place", ["config", "flag", "broker"])
def test_commas_between_super_users_are_warned_of(
    place: str, config: Path, log_dir: Path, capsys: Capture
) -> None:
    """``serve`` warns of them with the same text."""
    users = "User:a,User:b"
    if place == "config":
        config.write_text(f"{config.read_text()}\nsuper.users={users}\n")
        opened("--config", config)
    elif place == "flag":
        opened("--log-dir", log_dir, "--super-users", users)
    else:
        opened("--bootstrap-server", "a:1", brokers=Brokers({"super.users": users}))
    assert capsys.readouterr().err == (
        "authorizerd: warning: super.users: 'User:a,User:b' is one principal:"
        " separate entries by semicolons\n"
    )


def test_moment_of_the_past_gives_acls_and_topics_of_then(log_dir: Path, config: Path) -> None:
    source = opened("--log-dir", log_dir, "--as-of", "5")
    assert (len(source.snapshot.acls), source.offset) == (1, 5)
    assert source.topics == ("a", "b", "c")
    assert next(source.describe()) == (
        "as of offset 5 (2026-10-14T17:46:40.000Z), with 1 ACL; the settings are today's"
    )
    empty = opened("--config", config, "--as-of", "1")
    assert (len(empty.snapshot.acls), empty.topics) == (0, ())
    assert empty.settings.super_users == ROOT


@pytest.mark.parametrize(("moment", "reason"), [
    ("7", "offset 7 is in the future: the newest one is 6"),
    ("9999-01-01T00:00Z", "time 9999-01-01T00:00:00.000Z is in the future: it is "),
    ("2001-09-09T01:46:40Z", "is too old: the log reaches back to offset 0 (2026-10-14T17:46"),
])  # fmt: skip
def test_moment_outside_of_the_log_is_an_error(log_dir: Path, moment: str, reason: str) -> None:
    with pytest.raises(PastRangeError) as refused:
        opened("--log-dir", log_dir, "--as-of", moment)
    assert reason in str(refused.value)


def level(number: int) -> FeatureLevel:
    return FeatureLevel("metadata.version", number)


OLD_NODES = [node(1, 33), node(9, 30, is_controller=True)]


@pytest.mark.parametrize(("records", "flags", "rules"), [
    ([level(30)], [], RULES_4_3),
    ([level(33)], [], RULES_4_4),
    ([level(34)], [], ANY_RELEASE),
    # Where brokers are registered, they prove the release: the cluster may be in use.
    ([level(30), *OLD_NODES], [], ANY_RELEASE),
    ([level(30), *OLD_NODES], ["--kafka-release", "4.3"], RULES_4_3),
    # A daemon that owns the log judges by its level alone.
    ([level(30), *OLD_NODES], ["--config", "CONFIG"], RULES_4_3),
    ([level(33)], ["--config", "CONFIG", "--kafka-release", "4.3"], RULES_4_3),
    ([level(33)], ["--config", "CONFIG", "--override", "authorizerd.kafka.release=4.3"], RULES_4_3),
])  # fmt: skip
def test_log_is_judged_by_its_release(
    tmp_path: Path, records: list[FeatureLevel | bytes], flags: list[str], rules: ReleaseRules
) -> None:
    """So is its past, at the release of its end."""
    log_dir, config = tmp_path / "log", tmp_path / "server.properties"
    write_log(log_dir, [level(30), added(1)], records)
    config.write_text(f"node.id=1\nlog.dirs={log_dir}\n")
    words = [str(config) if each == "CONFIG" else each for each in flags]
    if "--config" not in words:
        words += ["--log-dir", str(log_dir)]
    assert opened(*words).snapshot.rules == rules
    assert opened(*words, "--as-of", "2").snapshot.rules == rules


def test_flag_chooses_the_release_of_what_brokers_list(log_dir: Path) -> None:
    brokers = Brokers({})
    flags = ["--bootstrap-server", "b:1"]
    assert opened(*flags, brokers=brokers).snapshot.rules == brokers.answer.snapshot.rules
    assert opened(*flags, "--kafka-release", "4.4", brokers=brokers).snapshot.rules == RULES_4_4
    with pytest.raises(SystemExit):
        opened("--log-dir", log_dir, "--kafka-release", "4.5")
