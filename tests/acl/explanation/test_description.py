"""The text of an explanation."""

import shlex
from itertools import takewhile

import pytest
from hypothesis import example, given
from msgspec.structs import replace

from authorizerd.acl.audit.line import audit_message
from authorizerd.acl.decision import AuthorizerSettings
from authorizerd.acl.explanation.description import (
    ASK_WITH_HOST,
    describe,
    describe_effects,
    make_command,
)
from authorizerd.acl.explanation.failing_acls import NAMED_MAX, find_failures
from authorizerd.acl.explanation.model import AclChange
from authorizerd.acl.grants.model import Grant, make_grant_note
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl, Question
from authorizerd.acl.text.printable import escape_unprintable
from tests.acl.explanation.cases import ADDRESSES, Case, cases
from tests.support.acls import acl, question, snapshot_of

CLOSED = AuthorizerSettings()
OPEN = AuthorizerSettings(allow_everyone_if_no_acl_found=True)
HOST = "10.0.0.1"


def lines(held: list[Acl], asked: Question, settings: AuthorizerSettings = CLOSED) -> list[str]:
    return list(describe(Case(frozenset(held), settings, asked).explain()))


@given(cases())
def test_first_line_is_the_audit_text_and_every_matching_acl_follows(case: Case) -> None:
    explanation = case.explain()
    first, *rest = describe(explanation)
    text = audit_message(case.question, explanation.decision, "explain")
    assert first == escape_unprintable(text)
    acls = list(takewhile(lambda line: line.startswith("  StandardAcl["), rest))
    assert len(acls) == len(explanation.acls)
    assert all(line.isprintable() for line in rest)


def test_denied_question() -> None:
    """The only surprise is on another line than the decision."""
    held = [acl("User:a", "READ"), acl("User:*", "ALL", topic="*", deny=True)]
    assert lines(held, question("User:a", "DESCRIBE")) == [
        "Principal = User:a is Denied operation = DESCRIBE from host = 10.0.0.1 on resource ="
        " Topic:LITERAL:t for request = explain with resourceRefCount = 1 based on rule"
        " MatchingAcl(acl=StandardAcl[resourceType=TOPIC, resourceName=*, patternType=LITERAL,"
        " principal=User:*, host=*, operation=ALL, permissionType=DENY])",
        "  StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:a,"
        " host=*, operation=READ, permissionType=ALLOW]: would allow DESCRIBE, because READ implies"
        " it, but a DENY overrides it",
        "  StandardAcl[resourceType=TOPIC, resourceName=*, patternType=LITERAL, principal=User:*,"
        " host=*, operation=ALL, permissionType=DENY]: denies DESCRIBE, because ALL includes it;"
        " this ACL decides",
        "at log offset 0, with 2 ACLs, by the rules of Kafka 4.3 or 4.4",
        "allow.everyone.if.no.acl.found is false",
        "near misses:",
        "  Only the DENY of ALL on literal `*` for User:* from host * prevents it: without it, the"
        " ALLOW of READ on literal `t` for User:a from host * allows DESCRIBE.",
        "to allow it, remove one ACL:",
        "  kafka-acls --bootstrap-server HOST:PORT --remove --force --deny-principal 'User:*'"
        " --deny-host '*' --operation All --topic '*' --resource-pattern-type literal",
        "  The ACL that is removed also denies other principals, resources, operations and hosts.",
    ]


@pytest.mark.parametrize(
    ("held", "settings", "expected"),
    [
        ([], CLOSED, "allow.everyone.if.no.acl.found is false, and no ACL of any principal matches"
                     " topic `t`"),
        ([], OPEN, "allow.everyone.if.no.acl.found applies: no ACL matches topic `t`, so everyone"
                   " is allowed"),
        ([acl("User:z")], CLOSED, "allow.everyone.if.no.acl.found is false"),
        ([acl("User:z")], OPEN, "allow.everyone.if.no.acl.found does not apply: 1 ACL matches topic"
                                " `t` (literal `t`)"),
        ([acl("User:z", topic="*"), acl("User:y", topic="", pattern="PREFIXED")], OPEN,
         "allow.everyone.if.no.acl.found does not apply: 2 ACLs match topic `t` (prefix ``,"
         " literal `*`)"),
        ([acl("User:z", topic="*")], AuthorizerSettings(frozenset({"User:a"}), True),
         "User:a is a super user, so no ACL is needed"),
    ],
)  # fmt: skip
def test_settings_that_matter(held: list[Acl], settings: AuthorizerSettings, expected: str) -> None:
    assert expected in lines(held, question(), settings)


def test_patterns_that_prevent_the_default_are_bounded() -> None:
    held = [acl("User:z", topic="t" * size, pattern="PREFIXED") for size in range(1, 9)]
    (line,) = (line for line in lines(held, question(topic="t" * 9), OPEN) if "apply" in line)
    assert line.endswith("8 ACLs match topic `ttttttttt` (prefix `tttttttt`, prefix `ttttttt`,"
                         " prefix `tttttt`, prefix `ttttt`, prefix `tttt`, …)")  # fmt: skip


@pytest.mark.parametrize(
    ("held", "asked", "settings", "ending"),
    [
        ([], question(host=None), CLOSED,
         ["to allow it, add one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:a --allow-host"
          " '*' --operation Read --topic t --resource-pattern-type literal"]),
        ([acl(), acl("User:*", host="10.0.0.5", deny=True)], question(host=None), CLOSED,
         [ASK_WITH_HOST,
          "to allow it from every host, remove one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --remove --force --deny-principal 'User:*'"
          " --deny-host 10.0.0.5 --operation Read --topic t --resource-pattern-type literal",
          "  The ACL that is removed also denies other principals."]),
        ([acl(host="10.0.0.7")], question(host=None), CLOSED,
         [ASK_WITH_HOST,
          "to allow it from every host, add one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:a --allow-host"
          " '*' --operation Read --topic t --resource-pattern-type literal"]),
        ([], question("User:O'Neil", topic="$HOME"), CLOSED,
         ["to allow it, add one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal"
          """ 'User:O'"'"'Neil' --allow-host 10.0.0.1 --operation Read --topic '$HOME'"""
          " --resource-pattern-type literal"]),
        ([acl(deny=True), acl("User:*", deny=True)], question(), CLOSED,
         ["to allow it, remove 2 ACLs and add 1 ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --remove --force --deny-principal 'User:*'"
          " --deny-host '*' --operation Read --topic t --resource-pattern-type literal",
          "  kafka-acls --bootstrap-server HOST:PORT --remove --force --deny-principal User:a"
          " --deny-host '*' --operation Read --topic t --resource-pattern-type literal",
          "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:a --allow-host"
          " 10.0.0.1 --operation Read --topic t --resource-pattern-type literal",
          "  The ACLs that are removed also deny other principals and hosts."]),
        ([], question(operation="CREATE_TOKENS"), CLOSED,
         ["to allow it, add one ACL:",
          "  add StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL,"
          " principal=User:a, host=10.0.0.1, operation=CREATE_TOKENS, permissionType=ALLOW] (no"
          " kafka-acls line: kafka-acls does not accept CREATE_TOKENS on TOPIC)",
          "  Brokers never ask for CREATE_TOKENS on a topic, only for READ, WRITE, CREATE,"
          " DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS."]),
        ([], question(topic="a\x1b[31m\nb"), CLOSED,
         ["to allow it, add one ACL:",
          "  add StandardAcl[resourceType=TOPIC, resourceName=a\\x1b[31m\\nb,"
          " patternType=LITERAL, principal=User:a, host=10.0.0.1, operation=READ,"
          " permissionType=ALLOW] (no kafka-acls line: a name contains an unprintable character)"
         ]),
        ([], question("User:root"), CLOSED,
         ["no ACL would deny it: User:root is a super user. No ACL changes what a super user may"
          " do: remove the principal from super.users instead."]),
        ([], question(), OPEN,
         ["to deny it, add one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --add --deny-principal User:a --deny-host"
          " 10.0.0.1 --operation Read --topic t --resource-pattern-type literal",
          "  Then an ACL matches topic `t`, so allow.everyone.if.no.acl.found no longer allows"
          " every principal everything on it."]),
        ([acl(), *(acl(deny=True, host=f"10.0.0.{number}") for number in range(150))],
         question(host=None), CLOSED, ["  and 50 more ACLs to remove"]),
        ([acl("User:*", host="10.0.0.5", deny=True)], question(host=None), CLOSED,
         ["to allow it from other hosts, add one ACL:",
          "  kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:a --allow-host"
          " '*' --operation Read --topic t --resource-pattern-type literal",
          "  It stays denied from 10.0.0.5, which an ACL denies by itself: to allow it from"
          " there as well, ask again with this host."]),
    ],
)  # fmt: skip
def test_changes_are_printed_as_commands(
    held: list[Acl], asked: Question, settings: AuthorizerSettings, ending: list[str]
) -> None:
    settings = replace(settings, super_users=frozenset({"User:root"}))
    assert lines(held, asked, settings)[-len(ending) :] == ending


@given(cases())
@example(
    Case(frozenset({acl(), acl("User:*", host="10.0.0.7", deny=True)}), CLOSED, question(host=None))
)
@example(Case(frozenset({acl(host="10.0.0.7")}), OPEN, question(host=None)))
def test_changes_for_every_host_are_labelled_if_some_hosts_are_allowed(case: Case) -> None:
    """Compare with every host of the universe. A client with a misspelt host does not exist."""
    explanation = case.explain()
    asked = case.question
    hosts = [replace(asked, host=host) for host in ADDRESSES if host_address(host) == host]
    expected = asked.host is None and not explanation.decision.allowed
    expected = expected and any(case.is_allowed(case.held, each) for each in hosts)
    assert explanation.depends_on_host == expected
    assert (ASK_WITH_HOST in describe(explanation)) == expected
    is_labelled = any(ASK_WITH_HOST in effect for effect in describe_effects(explanation))
    assert is_labelled == (expected and explanation.changes.reason is None)


@given(cases())
@example(Case(frozenset(), CLOSED, question("User:$(touch x) ", topic="`a` \"b\" 'c'")))
def test_command_has_the_fields_of_its_acl(case: Case) -> None:
    """A shell reads back what was written. See also the tests of kafka-acls' flags."""
    for change in case.explain().changes.listed:
        command = make_command(change, "h:1")
        if command is None:
            continue
        words = shlex.split(command)
        program = ["kafka-acls"] if ":" in change.acl.principal else ["authorizerd", "acls"]
        assert words[: len(program) + 2] == [*program, "--bootstrap-server", "h:1"]
        assert change.acl.principal in words
        assert ("--add" in words) == change.adds


def test_acl_that_kafka_cannot_judge_is_told_with_the_command_that_removes_it() -> None:
    held = [acl(), acl("est", "WRITE", topic="t", host="10.0.0.1")]
    told = lines(held, question())
    assert told[0].endswith(f"based on rule UnjudgeableAcl(acl={held[1]})")
    assert told[1].endswith(": would allow READ, but Kafka fails on another ACL")
    assert told[2] == (
        f"  {held[1]}: denies READ, as everything to everyone but super users: the principal has"
        " no colon, and Kafka fails on such an ACL; this ACL decides"
    )
    assert told[-3:-1] == [
        "to allow it, remove one ACL:",
        "  authorizerd acls --bootstrap-server HOST:PORT --remove --force --allow-principal est"
        " --allow-host 10.0.0.1 --operation Write --topic t --resource-pattern-type literal",
    ]
    failures = list(find_failures(snapshot_of(*held)))
    assert [each.remedy for each in failures] == [f"remove it: {told[-2].strip()}"]
    many = [acl(f"est{number}") for number in range(NAMED_MAX + 3)]
    assert [each.text for each in find_failures(snapshot_of(*many))][NAMED_MAX:] == [
        "Kafka fails on 3 more ACLs whose principal has no colon"
    ]


def test_unknown_codes_are_told() -> None:
    held = [acl(), Acl(2, "t", 3, "User:a", "*", 3, 99)]
    listed = [line for line in lines(held, question()) if line.startswith("  StandardAcl")]
    (line,) = (line for line in listed if "permissionType=UNKNOWN" in line)
    assert line.endswith(
        "denies READ (the ACL has a code that this version does not know, so it denies);"
        " this ACL decides"
    )
    assert make_command(AclChange(False, held[1])) is None


def test_many_matching_acls_are_counted() -> None:
    held = [acl(deny=True, host=f"10.0.0.{number}") for number in range(150)]
    assert "  and 50 more matching ACLs" in lines(held, question(host=None))
    held = [acl(deny=True, host=f"10.0.0.{number}/8") for number in range(150)]
    assert "  and 50 more matching ACLs" in lines(held, question(host="10.0.0.1"))


def test_the_end_of_a_grant_is_named() -> None:
    granted = acl("User:a", "READ", topic="t")
    grant = Grant(
        id="1", acl=granted, begin_ms=10**12, end_ms=2 * 10**12, author="User:ops", reason="INC-1"
    )
    said = lines([granted, make_grant_note(grant)], question("User:a", "READ", topic="t"))
    assert said[1].endswith(
        ": allows READ; this ACL decides; it is granted until 2033-05-18 03:33:20 UTC, by User:ops:"
        " INC-1"
    )
