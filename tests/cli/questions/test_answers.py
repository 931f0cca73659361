"""``who-can``, ``what-can`` and ``can``: their lines, documents and exit codes."""

import re
from pathlib import Path
from typing import Any

import pytest

from authorizerd.cli.output import align
from authorizerd.management.formats.catalogue import FORMATS
from tests.cli.questions.small_log import answer, ask, document, write_small_log
from tests.support.acls import acl


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_log(tmp_path_factory.mktemp("log"))


def test_long_name_does_not_move_the_columns_of_others() -> None:
    rows = [("User:a", "x"), (f"User:{'b' * 400}", "y"), (f"User:{'c' * 43}", "z")]
    assert align(rows) == [
        f"  User:a{' ' * 44}x", f"  User:{'b' * 400}  y", f"  User:{'c' * 43}  z",
    ]  # fmt: skip
    assert align(rows[:2]) == ["  User:a  x", f"  User:{'b' * 400}  y"]


WHO_CAN = [
    ("who-can READ --topic status", 0, """\
READ on topic status is allowed to:
  User:etl  from any host
  User:eve  from any host except 10.0.0.9
  everyone else too, from any host, except User:mallory"""),
    ("who-can read --topic status --host 10.0.0.9 --super-users User:root", 0, """\
READ on topic status from 10.0.0.9 is allowed to:
  User:etl
  User:root  (super user)
  everyone else too, except User:eve, User:mallory"""),
    ("who-can Write --topic status", 0, """\
WRITE on topic status is allowed to:
  User:robot  only from 10.0.0.7
  nobody else"""),
    ("who-can write --topic status --host 10.0.0.8", 3, """\
WRITE on topic status from 10.0.0.8 is allowed to:
  nobody"""),
    ("who-can read --topic orders-secret --super-users User:root;User:bob", 0, """\
READ on topic orders-secret is allowed to:
  User:bob   from any host (super user)
  User:root  from any host (super user)
  nobody else"""),
    ("who-can describe --cluster", 0, """\
DESCRIBE on the cluster is allowed to:
  User:ops  from any host
  nobody else"""),
    ("who-can delete --group other --allow-everyone-if-no-acl-found", 0, """\
DELETE on group other is allowed to:
  everyone, from any host"""),
]  # fmt: skip
WHAT_CAN = [
    ("what-can User:bob", 0, """\
User:bob may do this:
  topics that begin with orders, except orders-secret
    every operation  from any host
    known topics: orders, orders-00, orders-01, orders-02, orders-03, orders-04, orders-05, \
orders-06, orders-07, orders-08 and 3 more
  topic status
    READ, DESCRIBE  from any host"""),
    ("what-can User:robot --operation write --operation Describe", 0, """\
User:robot may do this:
  topic status
    WRITE     only from 10.0.0.7
    DESCRIBE  from any host"""),
    ("what-can User:nobody", 0, """\
User:nobody (no ACL names it: this holds for everyone) may do this:
  topic status
    READ, DESCRIBE  from any host"""),
    ("what-can User:alice --resource-type group", 0, """\
User:alice may do this:
  group billing
    READ, DESCRIBE  from any host"""),
    ("what-can User:alice --operation write", 3, "User:alice has none of this access"),
    ("what-can User:ops --resource-type CLUSTER", 0, """\
User:ops may do this:
  the cluster
    ALTER, DESCRIBE  from any host"""),
    ("what-can User:root --super-users User:root --resource-type topic --all-names", 0, """\
User:root (a super user) may do this:
  every topic
    every operation  from any host
    known topics: orders, orders-00, orders-01, orders-02, orders-03, orders-04, orders-05, \
orders-06, orders-07, orders-08, orders-09, orders-10, orders-11, orders-secret, status"""),
    ("what-can User:etl --operation read", 0, """\
User:etl may do this:
  every topic, except those that begin with orders-
    READ  from any host
    known topics: orders, status
  topics that begin with orders-, except orders-secret
    READ  from any host except 10.0.0.9
    known topics: orders-00, orders-01, orders-02, orders-03, orders-04, orders-05, orders-06, \
orders-07, orders-08, orders-09 and 2 more"""),
    ("what-can User:etl --operation read --host 10.0.0.9", 0, """\
User:etl may do this from 10.0.0.9:
  every topic, except those that begin with orders-
    READ
    known topics: orders, status"""),
]  # fmt: skip
CAN = [
    ("can User:bob --topic orders-1", 0, """\
User:bob may do this to topic orders-1:
  every operation  from any host"""),
    ("can User:robot --topic status", 0, """\
User:robot may do this to topic status:
  READ, DESCRIBE  from any host
  WRITE           only from 10.0.0.7
but not CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS"""),
    ("can User:robot --topic status --host 10.0.0.7", 0, """\
User:robot may do this to topic status from 10.0.0.7:
  READ, WRITE, DESCRIBE
but not CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS"""),
    ("can User:nobody --topic payments", 3,
     "User:nobody (no ACL names it: this holds for everyone) may do nothing to topic payments"),
    ("can User:root --cluster --super-users User:root", 0, """\
User:root (a super user) may do this to the cluster:
  every operation  from any host"""),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "shown"), [*WHO_CAN, *WHAT_CAN, *CAN])
def test_answer(log_dir: Path, words: str, code: int, shown: str) -> None:
    assert answer(words, "--log-dir", log_dir, code=code) == shown.splitlines()


@pytest.mark.parametrize(("principal", "similar"), [
    ("User:rodot", "; did you mean User:robot?"),
    ("User:rbot", "; did you mean User:robot?"),
    ("User:robots", "; did you mean User:robot?"),
    ("User:orbot", "; did you mean User:robot?"),
    ("user:ROBOT", "; did you mean User:robot?"),
    ("User:admim", "; did you mean User:admin?"),
    ("User:robotics", ""),
    ("Group:robot", "; did you mean User:robot?"),
    ("User:CN=robot,OU=shop", "; did you mean User:robot?"),
    ("User:CN=rbot,OU=shop", ""),
])  # fmt: skip
def test_similar_principal_is_named(log_dir: Path, principal: str, similar: str) -> None:
    words = f"can {principal} --topic payments --super-users User:admin"
    said = f"(no ACL names it: this holds for everyone{similar})"
    line = f"{principal} {said} may do nothing to topic payments"
    assert answer(words, "--log-dir", log_dir, code=3) == [line]


def test_names_that_no_acl_matches_are_a_group_of_their_own(log_dir: Path) -> None:
    """With allow.everyone.if.no.acl.found, User:etl's ACL for every topic still counts."""
    words = "what-can User:x --resource-type group --allow-everyone-if-no-acl-found"
    assert answer(words, "--log-dir", log_dir)[1:] == [
        "  groups that no ACL names",
        "    every operation  from any host",
    ]
    (found,) = document(words, "--log-dir", log_dir)["resources"]
    assert found["pattern"] is None


SOURCE = {
    "place": "log",
    "offset": 27,
    "as_of": None,
    "acls": 11,
    "settings": [{"key": "super.users", "value": "", "origin": "flag", "where": "--super-users"},
        {"key": "allow.everyone.if.no.acl.found", "value": "false", "origin": "flag",
         "where": "--allow-everyone-if-no-acl-found"}],
    "unread": 0,
}  # fmt: skip
ANY = {"any": True, "except": [], "only": []}
DOCUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("who-can READ --topic status",
     {"operation": "READ", "resource_type": "TOPIC", "resource_name": "status", "host": None,
      "principals": [{"principal": "User:etl", "super_user": False, "hosts": ANY},
          {"principal": "User:eve", "super_user": False,
           "hosts": {"any": True, "except": ["10.0.0.9"], "only": []}}], "everyone_else": ANY,
      "denied": [{"principal": "User:mallory", "super_user": False,
                  "hosts": {"any": False, "except": [], "only": []}}]}),
    ("what-can User:robot --operation WRITE",
     {"principal": "User:robot", "named": True, "super_user": False, "host": None,
      "resources": [{"resource_type": "TOPIC",
           "pattern": {"pattern_type": "LITERAL", "resource_name": "status"}, "except": [],
           "operations": ["WRITE"], "hosts": {"any": False, "except": [], "only": ["10.0.0.7"]},
           "known_topics": ["status"]}]}),
    (
        "can User:x --group billing --host ::1",
        {
            "principal": "User:x",
            "named": False,
            "super_user": False,
            "resource_type": "GROUP",
            "resource_name": "billing",
            "host": "0:0:0:0:0:0:0:1",
            "operations": [
                {
                    "operation": name,
                    "allowed": False,
                    "hosts": {"any": False, "except": [], "only": []},
                }
                for name in ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
            ],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), DOCUMENTS)
def test_document_keeps_its_fields(log_dir: Path, words: str, expected: dict[str, Any]) -> None:
    """Programs rely on every field, and on the order in which people read them."""
    found = document(words, "--log-dir", log_dir, code=3 if words.startswith("can ") else 0)
    source = {**SOURCE, "name": str(log_dir)}
    assert found == {**expected, "unknown_settings": [], "source": source}
    assert [*found] == [*expected, "unknown_settings", "source"]


def list_names(value: object) -> set[str]:
    if isinstance(value, list):
        return {name for each in value for name in list_names(each)}
    fields = value if isinstance(value, dict) else {}
    return {*fields}.union(*map(list_names, fields.values()))


def test_page_explains_every_field() -> None:
    page = (
        (Path(__file__).parents[3] / "docs/documents.md").read_text().partition("\n## Answers\n")[2]
    )
    assert page
    named = list_names([SOURCE, *(each[1] for each in DOCUMENTS)])
    assert len(named) >= 30
    assert named <= {*re.findall(r"[a-z_]+", " ".join(re.findall("`[^`]+`", page)))}


@pytest.mark.parametrize(("words", "said"), [
    ("who-can raed --topic t",
     "OPERATION: unknown operation 'raed' (did you mean READ?): expected one of ALL, READ, "),
    ("who-can read", "expected exactly one resource, found 0: use one of --topic, --group, "),
    ("who-can read --topic a --topic b",
     "expected exactly one resource, found 2: use one of --topic"),
    ("who-can read --topic=", "--topic: expected a name, found an empty text"),
    ("who-can read --topic t --host h", "--host: expected an IP address, found 'h'"),
    ("can alice --topic t", "PRINCIPAL: expected Type:name, for example User:alice, found "),
    ("can --topic t", "the following arguments are required: PRINCIPAL"),
    ("can User:a --principal User:b --topic t", "either PRINCIPAL or --principal, found both"),
    ("can --principal alice --topic t", "--principal: expected Type:name, for example "),
    ("what-can User:*", "PRINCIPAL: User:* means everyone: ask about one principal"),
    ("can User:* --topic t", "PRINCIPAL: User:* means everyone: ask about one principal"),
    ("what-can User:a --resource-type topics",
     "--resource-type: unknown resource type 'topics' (did you mean TOPIC?): expected one "
     "of TOPIC, GROUP, CLUSTER, "),
    ("what-can User:a --resource-type group --operation write",
     "--operation: expected an operation of the resource types in --resource-type"),
    ("what-can User:a --bootstrap-server a:1", "--log-dir: expected either --log-dir or "),
])  # fmt: skip
def test_invalid_arguments_are_named(log_dir: Path, words: str, said: str) -> None:
    assert said in ask(words, "--log-dir", log_dir, code=2).err


@pytest.mark.parametrize("words", ["can {} --topic status", "what-can {}"])
def test_principal_may_be_a_flag(log_dir: Path, words: str) -> None:
    said = [
        ask(words.format(each), "--log-dir", log_dir)
        for each in ("User:eve", "--principal User:eve")
    ]
    assert said[0] == said[1]


def test_operation_that_the_resource_does_not_have_is_reported(log_dir: Path) -> None:
    assert ask("who-can write --group billing", "--log-dir", log_dir, code=3).err == (
        "authorizerd: Kafka never asks for WRITE on groups: their operations are ALL, READ, "
        "DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS\n"
    )


@pytest.mark.parametrize(("words", "said"), [
    ("can user:alice --topic t", "principal 'user:alice': Kafka's clients have the type User"),
    ("what-can User:User:alice", "principal 'User:User:alice': the name repeats the type"),
    ("who-can read --topic t-*", "name 't-*': * is an ordinary character in a question"),
    ("who-can read --topic a,b", "name 'a,b': no topic has this name: use letters"),
    ("explain --principal user:a --operation read --topic t",
     "principal 'user:a': Kafka's clients have the type User"),
    ("history --principal user:a --operation read --topic t",
     "principal 'user:a': Kafka's clients have the type User"),
])  # fmt: skip
def test_a_question_that_is_probably_not_meant_is_answered_with_a_warning(
    log_dir: Path, words: str, said: str
) -> None:
    """The warning is on standard error, once."""
    code = 3 if words.startswith(("can", "explain")) else 0
    printed = ask(words, "--log-dir", log_dir, code=code)
    assert printed.err.startswith(f"authorizerd: warning: {said}")
    assert len(printed.err.splitlines()) == 1
    assert "warning" not in printed.out


def test_names_cannot_control_a_terminal(tmp_path: Path, log_dir: Path) -> None:
    printed = ask("can", "User:\x1b[31m", "--topic", "t", "--log-dir", log_dir, code=3)
    assert "\x1b" not in printed.out


RANGES = [
    acl("User:app", topic="events"),
    acl("User:app", topic="events", deny=True, host="evil.example.com"),
    acl("User:app", topic="events", deny=True, host="::1"),
    acl("User:net", topic="events", host="10.9.0.0/16"),
    acl("User:net", "ALL", topic="events", deny=True, host="10.9.1.2"),
    acl("User:v6", topic="events", host="fe80::1"),
]
NOT_READ = "but not WRITE, CREATE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS"
RANGE_OF_NET = "from no host by Kafka 4.3, or only from 10.9.0.0/16 (except 10.9.1.2) by Kafka 4.4"


@pytest.mark.parametrize(("words", "expected"), [
    ("who-can READ --topic events",
     ["  User:app  from any host", f"  User:net  {RANGE_OF_NET}", "  nobody else"]),
    ("who-can READ --topic events --host 10.9.3.4",
     ["  User:app", "  User:net  by Kafka 4.4 only", "  nobody else"]),
    ("who-can READ --topic events --host 10.9.1.2", ["  User:app", "  nobody else"]),
    ("what-can User:net", ["  topic events", f"    READ, DESCRIBE  {RANGE_OF_NET}"]),
    ("what-can User:net --host 10.9.3.4",
     ["  topic events", "    READ, DESCRIBE  by Kafka 4.4 only"]),
    ("can User:net --topic events", [f"  READ, DESCRIBE  {RANGE_OF_NET}", NOT_READ]),
    ("what-can User:v6", []),
    ("who-can READ --topic events --kafka-release 4.3",
     ["  User:app  from any host", "  nobody else"]),
    ("who-can READ --topic events --kafka-release 4.4",
     ["  User:app  from any host", "  User:net  only from 10.9.0.0/16 (except 10.9.1.2)",
      "  nobody else"]),
])  # fmt: skip
def test_ranges_are_answered_by_release_and_silent_hosts_are_left_out(
    tmp_path: Path, words: str, expected: list[str]
) -> None:
    path = tmp_path / "acls.json"
    path.write_text(FORMATS["json"].write(RANGES).text)
    code = 0 if expected else 3
    assert answer(words, "--acls", path, code=code)[1:] == expected


def test_document_has_ranges_by_release(tmp_path: Path) -> None:
    path = tmp_path / "acls.json"
    path.write_text(FORMATS["json"].write(RANGES).text)
    found = document("who-can READ --topic events", "--acls", path)["principals"][1]
    nowhere = {"any": False, "except": [], "only": []}
    network = {"any": False, "except": ["10.9.1.2"], "only": ["10.9.0.0/16"]}
    assert found["hosts"] == {**network, "releases": {"4.3": nowhere, "4.4": network}}
