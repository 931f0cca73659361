"""Answers if ``super.users`` or ``allow.everyone.if.no.acl.found`` is unknown."""

import json
from pathlib import Path
from typing import Any

import pytest

from authorizerd.acl.known_settings import ALLOW_EVERYONE, SUPER_USERS
from authorizerd.management.formats.listing import format_acls
from tests.cli.questions.small_log import ACLS
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.log_files import added, removed, write_log
from tests.support.printed import Printed, run_main

USERS, OPEN = KNOWN_SETTINGS
EXPLAIN = "explain --operation write --principal"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acls.txt").write_text(format_acls(ACLS))
    return tmp_path


def ask(words: str, flags: tuple[str, ...] = (), *, code: int = 0) -> Printed:
    return run_main(*words.split(), "--acls", "acls.txt", *flags, code=code)


CASES: list[tuple[str, tuple[str, ...], int, list[str], tuple[str, ...]]] = [
    ("who-can alter --cluster", (), 0,
     ["  User:ops  from any host", "  nobody else by the ACLs",
      "  and the brokers' super users, which are unknown"], (SUPER_USERS,)),
    ("who-can alter --cluster", (USERS,), 0, ["  nobody else"], ()),
    ("who-can create --cluster", (), 0,
     ["  nobody by the ACLs", "  and the brokers' super users, which are unknown"], (SUPER_USERS,)),
    ("who-can create --cluster", (USERS,), 3, ["  nobody"], ()),
    ("who-can read --group other", (USERS,), 0,
     ["  nobody by the ACLs",
      "  and everyone, if allow.everyone.if.no.acl.found is true, which is unknown"],
     (ALLOW_EVERYONE,)),
    ("who-can read --group other", (USERS, OPEN), 3, ["  nobody"], ()),
    ("who-can read --topic status", (), 0,
     ["  everyone else too, from any host, except User:mallory",
      "  and the brokers' super users, which are unknown"], (SUPER_USERS,)),
    ("can User:alice --topic orders", (), 0,
     ["  READ, DESCRIBE  from any host",
      "but not WRITE, CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS unless User:alice "
      "is a super user, which is unknown"], (SUPER_USERS,)),
    ("can User:ops --group other", (), 3,
     ["User:ops may do nothing to group other unless User:ops is a super user or "
      "allow.everyone.if.no.acl.found is true, which is unknown"], (SUPER_USERS, ALLOW_EVERYONE)),
    ("can User:ops --group other", (USERS, OPEN), 3, ["User:ops may do nothing to group other"],
     ()),
    ("can User:ops --group other", ("--super-users=User:ops",), 0, ["  every operation  from any "
     "host"], ()),
    ("what-can User:ops --operation write", (), 3,
     ["User:ops has none of this access, but perhaps:",
      "  everything, if User:ops is a super user, which is unknown",
      "  everything that no ACL names, if allow.everyone.if.no.acl.found is true, which is "
      "unknown"], (SUPER_USERS, ALLOW_EVERYONE)),
    ("what-can User:ops --operation write", (USERS, OPEN), 3, ["User:ops has none of this access"],
     ()),
    ("what-can User:ops", ("--super-users=User:ops",), 0, ["  every topic"], ()),
    (f"{EXPLAIN} User:eve --topic status", (), 3,
     ["denied unless User:eve is a super user, which is unknown",
      "allow.everyone.if.no.acl.found does not apply: 5 ACLs match topic `status` (literal "
      "`status`, literal `*`)"], (SUPER_USERS,)),
    (f"{EXPLAIN} User:eve --group other", (), 3,
     ["denied unless User:eve is a super user or allow.everyone.if.no.acl.found is true, which "
      "is unknown",
      "allow.everyone.if.no.acl.found is unknown, and no ACL of any principal matches group "
      "`other`",
      "  If allow.everyone.if.no.acl.found is true, which is unknown, the first ACL of a resource "
      "ends the access that this setting gives everyone."], (SUPER_USERS, ALLOW_EVERYONE)),
    (f"{EXPLAIN} User:bob --topic orders-x", (), 0,
     ["  It stays allowed if User:bob is a super user, which is unknown."], ()),
    (f"{EXPLAIN} User:eve --topic status", (USERS, OPEN), 3,
     ["allow.everyone.if.no.acl.found is false"], ()),
]  # fmt: skip


@pytest.mark.parametrize(("words", "flags", "code", "lines", "unknown"), CASES)
def test_answer_names_what_is_unknown(
    words: str, flags: tuple[str, ...], code: int, lines: list[str],
    unknown: tuple[str, ...]
) -> None:  # fmt: skip
    printed = ask(words, flags, code=code).out.splitlines()
    assert [line for line in printed if line in lines] == lines
    assert ("which" in "".join(printed)) == ("which" in "".join(lines))
    document = json.loads(ask(f"{words} --json", flags, code=code).out)
    assert document["unknown_settings"] == [*unknown]
    assert document["source"]["settings"][0]["value"] == (flags[0][14:] if flags else None)


def test_settings_that_are_unknown_are_null_in_documents() -> None:
    def document(words: str, *, code: int = 0) -> Any:  # noqa: ANN401
        return json.loads(ask(f"{words} --json", code=code).out)

    settings = document(f"{EXPLAIN} User:a --topic t", code=3)["settings"]
    assert (settings["super_user"], settings["allow_everyone_if_no_acl_found"]) == (None, None)
    assert document("can User:a --topic t", code=3)["super_user"] is None
    assert document("what-can User:a")["super_user"] is None
    (ops,) = document("who-can alter --cluster")["principals"]
    assert ops["super_user"] is None


def test_change_that_denies_leaves_no_resource_open(folder: Path) -> None:
    """With allow.everyone.if.no.acl.found, removing the last ACL of a resource would allow more."""
    (folder / "acls.txt").write_text(format_acls([acl("User:a", "WRITE", topic="t")]))
    assert "\nto deny it, add one ACL:\n" in ask(f"{EXPLAIN} User:a --topic t", (USERS,)).out
    printed = ask(f"{EXPLAIN} User:a --topic t", (USERS, OPEN))
    assert "\nto deny it, remove one ACL:\n" in printed.out


@pytest.mark.parametrize(("principal", "flags", "doubt", "unknown"), [
    ("User:a", (), "unless User:a is a super user, which is unknown", [SUPER_USERS]),
    ("User:a", (USERS,), "", []),
    ("User:b", (USERS,), "unless allow.everyone.if.no.acl.found is true, which is unknown",
     [ALLOW_EVERYONE]),
    ("User:b", (USERS, OPEN), "", []),
    ("User:b", (),
     "unless User:b is a super user or allow.everyone.if.no.acl.found is true, which is " "unknown",
     [SUPER_USERS, ALLOW_EVERYONE]),
])  # fmt: skip
def test_history_says_what_its_denials_depend_on(
    tmp_path: Path, principal: str, flags: tuple[str, ...], doubt: str,
    unknown: list[str],
) -> None:  # fmt: skip
    """Topic t has an ACL in the whole history, and group t only at first."""
    of_topic, of_group = added(1, acl("User:a", topic="t")), added(2, acl("User:a", group="t"))
    write_log(tmp_path, [of_topic, of_group], [removed(2)], [removed(1), added(3, of_topic.acl)])
    resource = "topic" if principal == "User:a" else "group"
    words = f"history --log-dir {tmp_path} --principal {principal} --{resource} t --operation write"
    words += " --since 3"
    lines = run_main(*words.split(), "--host", "10.0.0.1", *flags).out.splitlines()
    assert [line for line in lines if "denial" in line] == [f"each denial holds {doubt}"] * bool(
        doubt
    )
    assert json.loads(run_main(*words.split(), *flags, "--json").out)["unknown_settings"] == unknown


def test_denial_of_today_is_no_more_certain_than_that_of_the_past(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1, acl("User:a", topic="t"))], [removed(1)])
    words = f"explain --log-dir {tmp_path} --principal User:a --topic t --operation read --as-of 2"
    printed = run_main(*words.split()).out
    assert "\ndenied unless" not in printed
    assert (
        "\nnow: denied unless User:a is a super user or allow.everyone.if.no.acl.found is true, "
        "which is unknown, since offset 3 ("
    ) in printed
    found = json.loads(run_main(*words.split(), "--json").out)
    assert (found["decision"], found["as_of"]["now"]["decision"]) == (True, False)
    assert found["unknown_settings"] == [SUPER_USERS, ALLOW_EVERYONE]


def test_allowed_answers_of_a_history_are_certain(tmp_path: Path) -> None:
    write_log(tmp_path, [added(1, acl("User:a", topic="t"))])
    words = f"history --log-dir {tmp_path} --principal User:a --topic t --operation read --since 2"
    assert "each denial" not in run_main(*words.split()).out
