"""Command lines of kafka-acls, as data.

**Invariant:** a story starts and ends on a server without ACLs. Two tools agree if each command has
the same exit code and output, compared by ``acl_command_stories.comparable``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command line.

    ``answers`` is typed at its prompts. If ``connected``, flags of the connection come first.
    """

    arguments: str
    answers: str = ""
    connected: bool = True


def given(arguments: str, answers: str = "") -> Case:
    return Case(arguments=arguments, answers=answers)


def alone(arguments: str) -> Case:
    return Case(arguments=arguments, connected=False)


_PEOPLE: Final = "--allow-principal User:alice --allow-principal User:bob"

ADD: Final = (
    given("--add --allow-principal User:alice --topic demo"),
    given("--add --allow-principal User:alice --topic demo"),
    given("--list --topic demo"),
    given(
        f"--add {_PEOPLE} --allow-host 10.0.0.1 --allow-host 10.0.0.2 --operation Read "
        "--operation Describe --topic demo --topic other --group readers"
    ),
    given(
        "--add --allow-principal User:alice --allow-host 10.0.0.1 --allow-host 10.0.0.3 "
        "--operation Read --topic demo"
    ),
    given("--add --deny-principal User:carol --topic demo --operation Write"),
    given(
        f"--add {_PEOPLE} --allow-host 10.0.0.1 --deny-principal User:carol "
        "--deny-host 10.0.0.9 --deny-host * --operation Alter --topic demo"
    ),
    # A host without a principal adds no ACL.
    given(
        "--add --allow-host 10.0.0.1 --deny-principal User:carol --operation Delete --topic demo"
    ),
    given("--add --allow-principal User:* --topic * --operation read"),
    given("--add --allow-principal User:alice --topic logs- --resource-pattern-type prefixed"),
    given("--add --allow-principal User:alice --topic logs- --resource-pattern-type PREFIXED"),
    given("--add --allow-principal User:alice --cluster --operation CLUSTERACTION"),
    given("--add --allow-principal User:alice --cluster --operation IdempotentWrite"),
    given(
        "--add --allow-principal User:alice --transactional-id ' pay' --operation TwoPhaseCommit"
    ),
    given("--add --allow-principal User:alice --delegation-token ' token ' --operation Describe"),
    given("--add --allow-principal User:alice --user-principal User:bob --operation CreateTokens"),
    given("--add --allow-principal Group:staff:night --topic ' a,b `c` (d) ' --operation ' All '"),
    given(
        "--add --allow-principal User:alice --allow-principal User:alice --topic twice "
        "--topic twice --operation read --operation READ"
    ),
    given(
        "--add --allow-principal User:alice --topic pre --cluster --resource-pattern-type prefixed"
    ),
    given(
        "--add --allow-principal User:alice --topic=short -group dash --operation=Read --force=no "
        "stray - words -- --list"
    ),
    given("--add --allow-principal User:alice --topic --cluster --operation Read"),
    given("--add --allow-principal User:alice --topic ''"),
    given("--add --allow-principal User: --topic : --allow-host ''"),
    given("--list"),
    given(
        "--remove --force --topic demo --topic other --topic * --topic 'a,b `c` (d)' --topic twice "
        "--topic short --topic --cluster --topic : --group readers --group dash --cluster "
        "--transactional-id ' pay' --delegation-token token --user-principal User:bob"
    ),
    given("--remove --force --topic logs- --topic pre --resource-pattern-type prefixed"),
    given("--list"),
)

LIST: Final = (
    given("--list"),
    given(f"--add {_PEOPLE} --topic foo --topic foobar --topic * --group foo --operation Read"),
    given("--add --deny-principal User:carol --topic fo --resource-pattern-type prefixed"),
    given("--add --allow-principal User:carol --topic foo --resource-pattern-type prefixed"),
    given("--add --allow-principal User:carol --cluster --operation Describe"),
    given("--list"),
    given("--list --topic foo"),
    given("--list --topic nothing"),
    given("--list --topic foo --topic foobar --group foo --cluster"),
    given("--list --topic foo --resource-pattern-type literal"),
    given("--list --topic foo --resource-pattern-type prefixed"),
    given("--list --topic foo --resource-pattern-type any"),
    given("--list --topic foo --resource-pattern-type match"),
    given("--list --topic foo --topic foobar --resource-pattern-type Match"),
    given("--list --topic * --resource-pattern-type match"),
    given("--list --topic ' foo '"),
    given("--list --topic foo,foobar"),
    # The cluster counts only with the literal type, so this lists everything.
    given("--list --cluster --resource-pattern-type any"),
    given("--list --principal User:alice"),
    given("--list --principal User:nobody"),
    given("--list --principal ' User:alice ' --principal User:carol --topic foo"),
    given(
        "--list --topic foo --principal User:a --principal User:bob --principal User:alice "
        "--principal User:carol --principal Group:x --principal User:* --principal User:zoé "
        "--principal User:p1 --principal User:p2 --principal User:p3 --principal User:p4 "
        "--principal User:p5 --principal User:p6 --principal User:p7 --principal User:p8 "
        "--principal User:alice --principal User:a-principal-whose-name-is-rather-long"
    ),
    given("--list --principal --topic foobar"),
    given("--list --operation Read --force --user-principal x"),
    given("--remove --force --topic foo --topic foobar --topic * --group foo --cluster"),
    given("--remove --force --topic fo --topic foo --resource-pattern-type prefixed"),
    given("--list"),
)

REMOVE: Final = (
    given(f"--add {_PEOPLE} --topic foo --topic bar --operation Read --operation Write"),
    given("--add --deny-principal User:carol --topic fo --resource-pattern-type prefixed"),
    given("--remove --topic foo", "n\n"),
    given("--remove --topic foo", "\n"),
    given("--remove --topic foo", "yes\n"),
    given("--remove --topic foo", " y\n"),
    given("--remove --topic foo --allow-principal User:alice", "y\n"),
    given("--list --topic foo"),
    given("--remove --topic foo --allow-principal User:alice --operation Read", "y\n"),
    given(f"--remove --topic foo --topic bar {_PEOPLE} --operation Write", "n\nn\n"),
    given(f"--remove --topic foo --topic bar {_PEOPLE} --operation Write", "Y\ny\n"),
    given("--list --topic foo --topic bar"),
    given("--list --topic nothing --topic foobar --resource-pattern-type match"),
    given("--remove --topic foo --topic bar", "y\ny\n"),
    given("--list"),
    given(f"--add {_PEOPLE} --topic foo --operation Read"),
    given("--add --allow-principal User:carol --topic foo --resource-pattern-type prefixed"),
    given(
        "--remove --topic foo --resource-pattern-type any --allow-principal User:alice "
        "--deny-principal User:carol --operation Read",
        "y\n",
    ),
    given("--list"),
    given("--remove --topic foobar --resource-pattern-type match", "Y\n"),
    given("--list"),
    given(
        "--remove --force --topic foo --resource-pattern-type match --allow-principal User:nobody"
    ),
    given("--remove --topic foo --resource-pattern-type any --force"),
    given("--remove --cluster --force"),
    given("--list"),
)

CONVENIENCE: Final = (
    given("--add --producer --allow-principal User:alice --topic orders"),
    given("--add --consumer --allow-principal User:bob --topic orders --group billing"),
    given(
        "--add --producer --consumer --allow-principal User:carol --allow-host 10.0.0.1 "
        "--topic orders --topic returns --group billing --transactional-id pay"
    ),
    given("--add --producer --idempotent --allow-principal User:dora --topic orders"),
    given(
        "--add --producer --idempotent --allow-principal User:erin --topic ord "
        "--transactional-id pay --resource-pattern-type prefixed"
    ),
    given("--add --producer --allow-principal User:finn --topic orders --group ignored --cluster"),
    given(
        "--add --consumer --allow-principal User:finn --topic orders --group billing "
        "--delegation-token ignored"
    ),
    given("--list"),
    given(
        "--remove --producer --allow-principal User:carol --allow-host 10.0.0.1 --topic returns",
        "y\n",
    ),
    given("--remove --consumer --topic orders --group billing", "n\nn\n"),
    given("--list --topic returns"),
    given("--remove --producer --idempotent --force --topic orders --transactional-id pay"),
    given("--remove --force --topic returns --group billing"),
    given(
        "--remove --producer --idempotent --force --topic ord --transactional-id pay "
        "--resource-pattern-type prefixed"
    ),
    given("--list"),
)

WRONG_ARGUMENTS: Final = (
    alone(""),
    alone("--help"),
    alone("--help --version"),
    alone("--list --nothing --version"),
    alone("--list"),
    alone("--list --bootstrap-server localhost:9092 --bootstrap-controller localhost:9093"),
    given(""),
    given("--list --add"),
    given("--add --remove"),
    given("--list --producer --topic t"),
    given("--list --consumer --topic t --group g"),
    given("--list --allow-host 10.0.0.1"),
    given("--list --allow-principal User:alice"),
    given("--list --deny-host 10.0.0.1"),
    given("--list --deny-principal User:alice"),
    given("--add --producer --operation Read --topic t --allow-principal User:alice"),
    given("--add --producer --deny-principal User:alice --topic t"),
    given("--add --producer --deny-host 10.0.0.1 --topic t --allow-principal User:alice"),
    given("--add --consumer --operation Read --topic t --group g --allow-principal User:alice"),
    given("--add --consumer --deny-principal User:alice --topic t --group g"),
    given("--add --consumer --deny-host 10.0.0.1 --topic t --group g"),
    given("--add --principal User:alice --topic t"),
    given("--remove --principal User:alice --topic t"),
    given("--add --producer --allow-principal User:alice"),
    given("--add --idempotent --allow-principal User:alice --topic t"),
    given("--add --consumer --allow-principal User:alice --topic t"),
    given("--add --consumer --allow-principal User:alice --group g"),
    given("--add --consumer --allow-principal User:alice --topic t --group g --cluster"),
    given("--add --consumer --allow-principal User:alice --topic t --group g --transactional-id x"),
    given("--add --allow-principal User:alice"),
    given("--remove --allow-principal User:alice"),
    given("--remove"),
    given("--remove --cluster --resource-pattern-type prefixed"),
    given("--add --topic t"),
    given("--add --topic t --allow-host 10.0.0.1"),
    given("--add --producer --topic t"),
    given("--add --topic t --allow-principal User:alice --resource-pattern-type any"),
    given("--add --topic t --allow-principal User:alice --resource-pattern-type MATCH"),
    given("--add --topic t --allow-principal User:alice --operation ClusterAction"),
    given("--add --topic t --allow-principal User:alice --operation describe_configs"),
    given("--add --topic t --allow-principal User:alice --operation Any"),
    given("--remove --topic t --allow-principal User:alice --operation Nothing"),
    given("--add --group g --allow-principal User:alice --operation Write"),
    given("--add --cluster --deny-principal User:alice --operation Read"),
    given("--add --transactional-id t --allow-principal User:alice --operation Read"),
    given("--add --delegation-token t --allow-principal User:alice --operation Read"),
    given("--add --user-principal User:bob --allow-principal User:alice --operation Read"),
    given("--nothing"),
    given("--list --topic"),
    given("--list --resource-pattern-type"),
    given("--p"),
    given("--list --princ User:alice"),
    given("--list -f"),
    given("--list -nothing"),
    given("--list -x"),
    given("--list --=x"),
    given("--add --allow-principal User:alice --topic t --operation= Read"),
)

WRONG_VALUES: Final = (
    given("--list --resource-pattern-type nothing"),
    given("--add --resource-pattern-type unknown"),
    given("--list --resource-pattern-type any --resource-pattern-type any"),
    given("--list --bootstrap-server localhost:9092"),
    given("--list --command-config x"),
    given("--add --topic t --allow-principal alice"),
    given("--add --topic t --deny-principal ''"),
    given("--list --principal alice"),
    alone("--list --bootstrap-server nothing"),
    alone("--list --bootstrap-server localhost:port"),
    alone("--list --bootstrap-controller localhost"),
    alone("--list --bootstrap-server localhost:70000"),
    alone("--list --bootstrap-server ,"),
    alone("--list --bootstrap-server ''"),
    alone("--list --bootstrap-server nothing.invalid:9092"),
    alone("--list --bootstrap-server localhost:9092 --command-config /nothing/there.properties"),
)

STORIES: Final = {
    "add": ADD,
    "list": LIST,
    "remove": REMOVE,
    "convenience": CONVENIENCE,
    "wrong_arguments": WRONG_ARGUMENTS,
    "wrong_values": WRONG_VALUES,
}

REFUSED: Final = (
    given("--list"),
    given("--list --topic t --principal User:alice"),
    given("--add --allow-principal User:alice --topic t"),
    given("--remove --force --topic t"),
    given("--remove --force --topic t --allow-principal User:alice"),
)
"""For a user without rights. The output has the server's words, so there is no recorded story."""
