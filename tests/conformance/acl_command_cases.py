"""Command lines of kafka-acls, as data.

**Invariant:** a story starts and ends on a server without ACLs. Two tools agree if each command has
the same exit code and output, compared by ``acl_command_stories.comparable``.
"""

import shlex
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One command line with the answers at its prompts, after the flags of a connection or none."""

    arguments: str
    answers: str = ""
    connected: bool = True


def story(text: str) -> tuple[Case, ...]:
    """Return the cases of a text, one command per line.

    A backslash continues a line. ``< a b`` at its end gives the answers a and b. ``@`` starts a
    command without the connection's flags; ``#`` starts a comment. ``NBSP`` is a no-break space.
    """
    lines = text.strip().replace(" \\\n  ", " ").replace("NBSP", "\N{NO-BREAK SPACE}").splitlines()
    return tuple(_case(line) for line in lines if not line.startswith("#"))


def _case(line: str) -> Case:
    command, _, answers = line.partition(" < ")
    return Case(
        arguments=command.removeprefix("@").removeprefix(" "),
        answers="".join(f"{answer}\n" for answer in shlex.split(answers)),
        connected=not command.startswith("@"),
    )


ADD: Final = story(r"""
--add --allow-principal User:alice --topic demo
--add --allow-principal User:alice --topic demo
--list --topic demo
--add --allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.1 --allow-host \
  10.0.0.2 --operation Read --operation Describe --topic demo --topic other --group readers
--add --allow-principal User:alice --allow-host 10.0.0.1 --allow-host 10.0.0.3 --operation Read \
  --topic demo
--add --deny-principal User:carol --topic demo --operation Write
--add --allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.1 \
  --deny-principal User:carol --deny-host 10.0.0.9 --deny-host * --operation Alter --topic demo
# A host without a principal adds no ACL.
--add --allow-host 10.0.0.1 --deny-principal User:carol --operation Delete --topic demo
--add --allow-principal User:* --topic * --operation read
--add --allow-principal User:alice --topic logs- --resource-pattern-type prefixed
--add --allow-principal User:alice --topic logs- --resource-pattern-type PREFIXED
--add --allow-principal User:alice --cluster --operation CLUSTERACTION
--add --allow-principal User:alice --cluster --operation IdempotentWrite
--add --allow-principal User:alice --transactional-id ' pay' --operation TwoPhaseCommit
--add --allow-principal User:alice --delegation-token ' token ' --operation Describe
--add --allow-principal User:alice --user-principal User:bob --operation CreateTokens
--add --allow-principal Group:staff:night --topic ' a,b `c` (d) ' --operation ' All '
--add --allow-principal User:alice --allow-principal User:alice --topic twice --topic twice \
  --operation read --operation READ
--add --allow-principal User:alice --topic pre --cluster --resource-pattern-type prefixed
--add --allow-principal User:alice --topic=short -group dash --operation=Read --force=no stray - \
  words -- --list
--add --allow-principal User:alice --topic --cluster --operation Read
--add --allow-principal User:alice --topic ''
--add --allow-principal User: --topic : --allow-host ''
--list
--remove --force --topic demo --topic other --topic * --topic 'a,b `c` (d)' --topic twice \
  --topic short --topic --cluster --topic : --group readers --group dash --cluster \
  --transactional-id ' pay' --delegation-token token --user-principal User:bob
--remove --force --topic logs- --topic pre --resource-pattern-type prefixed
--list
""")
LIST: Final = story(r"""
--list
--add --allow-principal User:alice --allow-principal User:bob --topic foo --topic foobar --topic \
  * --group foo --operation Read
--add --deny-principal User:carol --topic fo --resource-pattern-type prefixed
--add --allow-principal User:carol --topic foo --resource-pattern-type prefixed
--add --allow-principal User:carol --cluster --operation Describe
--list
--list --topic foo
--list --topic nothing
--list --topic foo --topic foobar --group foo --cluster
--list --topic foo --resource-pattern-type literal
--list --topic foo --resource-pattern-type prefixed
--list --topic foo --resource-pattern-type any
--list --topic foo --resource-pattern-type match
--list --topic foo --topic foobar --resource-pattern-type Match
--list --topic * --resource-pattern-type match
--list --topic ' foo '
--list --topic foo,foobar
# The cluster counts only with the literal type, so this lists everything.
--list --cluster --resource-pattern-type any
--list --principal User:alice
--list --principal User:nobody
--list --principal ' User:alice ' --principal User:carol --topic foo
--list --topic foo --principal User:a --principal User:bob --principal User:alice --principal \
  User:carol --principal Group:x --principal User:* --principal User:zoé --principal User:p1 \
  --principal User:p2 --principal User:p3 --principal User:p4 --principal User:p5 --principal \
  User:p6 --principal User:p7 --principal User:p8 --principal User:alice --principal \
  User:a-principal-whose-name-is-rather-long
--list --principal --topic foobar
--list --operation Read --force --user-principal x
--remove --force --topic foo --topic foobar --topic * --group foo --cluster
--remove --force --topic fo --topic foo --resource-pattern-type prefixed
--list
""")
REMOVE: Final = story(r"""
--add --allow-principal User:alice --allow-principal User:bob --topic foo --topic bar \
  --operation Read --operation Write
--add --deny-principal User:carol --topic fo --resource-pattern-type prefixed
--remove --topic foo < n
--remove --topic foo < ''
--remove --topic foo < yes
--remove --topic foo < ' y'
--remove --topic foo --allow-principal User:alice < y
--list --topic foo
--remove --topic foo --allow-principal User:alice --operation Read < y
--remove --topic foo --topic bar --allow-principal User:alice --allow-principal User:bob \
  --operation Write < n n
--remove --topic foo --topic bar --allow-principal User:alice --allow-principal User:bob \
  --operation Write < Y y
--list --topic foo --topic bar
--list --topic nothing --topic foobar --resource-pattern-type match
--remove --topic foo --topic bar < y y
--list
--add --allow-principal User:alice --allow-principal User:bob --topic foo --operation Read
--add --allow-principal User:carol --topic foo --resource-pattern-type prefixed
--remove --topic foo --resource-pattern-type any --allow-principal User:alice --deny-principal \
  User:carol --operation Read < y
--list
--remove --topic foobar --resource-pattern-type match < Y
--list
--remove --force --topic foo --resource-pattern-type match --allow-principal User:nobody
--remove --topic foo --resource-pattern-type any --force
--remove --cluster --force
--list
""")
CONVENIENCE: Final = story(r"""
--add --producer --allow-principal User:alice --topic orders
--add --consumer --allow-principal User:bob --topic orders --group billing
--add --producer --consumer --allow-principal User:carol --allow-host 10.0.0.1 --topic orders \
  --topic returns --group billing --transactional-id pay
--add --producer --idempotent --allow-principal User:dora --topic orders
--add --producer --idempotent --allow-principal User:erin --topic ord --transactional-id pay \
  --resource-pattern-type prefixed
--add --producer --allow-principal User:finn --topic orders --group ignored --cluster
--add --consumer --allow-principal User:finn --topic orders --group billing --delegation-token \
  ignored
--list
--remove --producer --allow-principal User:carol --allow-host 10.0.0.1 --topic returns < y
--remove --consumer --topic orders --group billing < n n
--list --topic returns
--remove --producer --idempotent --force --topic orders --transactional-id pay
--remove --force --topic returns --group billing
--remove --producer --idempotent --force --topic ord --transactional-id pay \
  --resource-pattern-type prefixed
--list
""")
NAMES: Final = story(r"""
# kafka-acls splits no value at commas. It trims all of them but transactional ids.
--add --allow-principal ' User:CN=a,O=b ' --allow-host ' 10.0.0.1 ' --operation ' Read ' \
  --topic ' t ' --group ' g,h '
--add --allow-principal User:a,User:b --allow-host 10.0.0.1,10.0.0.2 --topic t --operation read
--add --deny-principal ' User:c ' --deny-host ' 10.0.0.2 ' --transactional-id ' tx,ty ' \
  --operation Write
--add --allow-principal 'User: d' --transactional-id ' tx,ty ' --operation Describe
--add --allow-principal User:a --delegation-token ' id,x ' --operation Describe
--add --allow-principal User:a --user-principal ' User:CN=a,O=b ' --operation CreateTokens
--add --producer --allow-principal ' User:p ' --topic ' p ' --transactional-id ' p '
--add --consumer --allow-principal ' User:p ' --topic ' p ' --group ' p '
--add --allow-principal User:a --topic t --operation Read,Write
--add --allow-principal User:a --topic t --resource-pattern-type ' prefixed '
--add --allow-principal User:aNBSP --topic NBSPuNBSP
--list
--list --topic t,u
--list --topic ' t '
--list --group ' g,h '
--list --transactional-id tx,ty
--list --transactional-id ' tx,ty '
--list --delegation-token ' id,x '
--list --user-principal ' User:CN=a,O=b '
--list --principal ' User:CN=a,O=b '
--list --principal User:a,User:b
--remove --topic ' t ' --allow-principal ' User:CN=a,O=b ' --allow-host ' 10.0.0.1 ' --operation \
  ' Read ' < y
--remove --transactional-id tx,ty --force
--list
--remove --force --topic ' t ' --topic ' p ' --topic NBSPuNBSP --group ' g,h ' --group ' p ' \
  --transactional-id ' tx,ty ' --transactional-id ' p ' --delegation-token ' id,x ' \
  --user-principal ' User:CN=a,O=b '
--list
""")
WRONG_ARGUMENTS: Final = (
    *story(r"""
@
@ --help
@ --help --version
@ --list --nothing --version
@ --list
@ --list --bootstrap-server localhost:9092 --bootstrap-controller localhost:9093
"""),
    Case(arguments=""),
    *story(r"""
--list --add
--add --remove
--list --producer --topic t
--list --consumer --topic t --group g
--list --allow-host 10.0.0.1
--list --allow-principal User:alice
--list --deny-host 10.0.0.1
--list --deny-principal User:alice
--add --producer --operation Read --topic t --allow-principal User:alice
--add --producer --deny-principal User:alice --topic t
--add --producer --deny-host 10.0.0.1 --topic t --allow-principal User:alice
--add --consumer --operation Read --topic t --group g --allow-principal User:alice
--add --consumer --deny-principal User:alice --topic t --group g
--add --consumer --deny-host 10.0.0.1 --topic t --group g
--add --principal User:alice --topic t
--remove --principal User:alice --topic t
--add --producer --allow-principal User:alice
--add --idempotent --allow-principal User:alice --topic t
--add --consumer --allow-principal User:alice --topic t
--add --consumer --allow-principal User:alice --group g
--add --consumer --allow-principal User:alice --topic t --group g --cluster
--add --consumer --allow-principal User:alice --topic t --group g --transactional-id x
--add --allow-principal User:alice
--remove --allow-principal User:alice
--remove
--remove --cluster --resource-pattern-type prefixed
--add --topic t
--add --topic t --allow-host 10.0.0.1
--add --producer --topic t
--add --topic t --allow-principal User:alice --resource-pattern-type any
--add --topic t --allow-principal User:alice --resource-pattern-type MATCH
--add --topic t --allow-principal User:alice --operation ClusterAction
--add --topic t --allow-principal User:alice --operation describe_configs
--add --topic t --allow-principal User:alice --operation Any
--remove --topic t --allow-principal User:alice --operation Nothing
--add --group g --allow-principal User:alice --operation Write
--add --cluster --deny-principal User:alice --operation Read
--add --transactional-id t --allow-principal User:alice --operation Read
--add --delegation-token t --allow-principal User:alice --operation Read
--add --user-principal User:bob --allow-principal User:alice --operation Read
--nothing
--list --topic
--list --resource-pattern-type
--p
--list --princ User:alice
--list -f
--list -nothing
--list -x
--list --=x
--add --allow-principal User:alice --topic t --operation= Read
"""),
)
WRONG_VALUES: Final = story(r"""
--list --resource-pattern-type nothing
--add --resource-pattern-type unknown
--list --resource-pattern-type any --resource-pattern-type any
--list --bootstrap-server localhost:9092
--list --command-config x
--add --topic t --allow-principal alice
--add --topic t --deny-principal ''
--list --principal alice
@ --list --bootstrap-server nothing
@ --list --bootstrap-server localhost:port
@ --list --bootstrap-controller localhost
@ --list --bootstrap-server localhost:70000
@ --list --bootstrap-server ,
@ --list --bootstrap-server ''
@ --list --bootstrap-server nothing.invalid:9092
@ --list --bootstrap-server localhost:9092 --command-config /nothing/there.properties
""")
STORIES: Final = {
    "add": ADD,
    "list": LIST,
    "remove": REMOVE,
    "convenience": CONVENIENCE,
    "names": NAMES,
    "wrong_arguments": WRONG_ARGUMENTS,
    "wrong_values": WRONG_VALUES,
}

REFUSED: Final = story(r"""
--list
--list --topic t --principal User:alice
--add --allow-principal User:alice --topic t
--remove --force --topic t
--remove --force --topic t --allow-principal User:alice
""")
"""Run by a user without rights. Their output quotes the server, so no output is recorded."""
