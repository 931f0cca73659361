"""A name is one name on every surface, and cannot control a terminal or forge a line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from authorizerd.acl.model import Acl, Operation, PatternType, PermissionType, ResourceType
from authorizerd.acl.text.kafka_acls import RESOURCE_FLAGS
from authorizerd.cli.main import main
from authorizerd.image.changes import TopicAdded
from authorizerd.protocol.http.messages import Request, Response
from tests.daemon.console.console_place import EXPLAIN, WHAT, WHO, ConsolePlace
from tests.support.acls import KNOWN_SETTINGS, acl
from tests.support.answers import answer_of
from tests.support.daemon_process import write_config
from tests.support.log_files import acl_id, added, flipped, removed, write_log
from tests.support.printed import run_main

NAMES = (" tx", "tx ", "\ttx", "tx\N{NO-BREAK SPACE}", "a,b", "a, b", ",", "a;b", "CN=a, O=b")
"""Each is the name of a resource, and that of a principal."""
OTHERS = ("tx", "a", "b", " b", "a,b ", "CN=a", "CN=a,O=b", "O=b", "a;b,")
"""Names that a surface would ask about if it split or trimmed those above. No ACL has them."""

OPERATIONS = {
    ResourceType.TOPIC: Operation.READ, ResourceType.GROUP: Operation.READ,
    ResourceType.TRANSACTIONAL_ID: Operation.WRITE,
    ResourceType.DELEGATION_TOKEN: Operation.DESCRIBE, ResourceType.USER: Operation.CREATE_TOKENS,
}  # fmt: skip
LITERAL, ALLOW = int(PatternType.LITERAL), int(PermissionType.ALLOW)


def grant(resource_type: ResourceType, name: str, user: str) -> Acl:
    operation = int(OPERATIONS[resource_type])
    return Acl(int(resource_type), name, LITERAL, f"User:{user}", "*", operation, ALLOW)


class Asked:
    """One question, and the surfaces that answer it. Each of them returns True for allowed.

    Args:
        log_dir: a log that allows a principal to use the resource that has its name.
    """

    def __init__(self, log_dir: Path, flag: str, name: str, user: str) -> None:
        self.log_dir = log_dir
        self.flag = flag
        self.type = RESOURCE_FLAGS[flag]
        self.name = name
        self.principal = f"User:{user}"
        self.operation = OPERATIONS[self.type].name

    def document(self, command: str, *words: str) -> Any:  # noqa: ANN401
        words += ("--json", "--log-dir", str(self.log_dir), *KNOWN_SETTINGS)
        return json.loads(run_main(command, *words, code=(0, 3)).out)

    @property
    def resource(self) -> tuple[str, str]:
        return f"--{self.flag}", self.name

    @property
    def question(self) -> tuple[str, ...]:
        return "--principal", self.principal, "--operation", self.operation, *self.resource

    @property
    def fields(self) -> dict[str, str]:
        """The question as a form of the console."""
        return {
            "principal": self.principal,
            "operation": self.operation,
            "resource_type": self.type.name,
            "resource_name": self.name,
        }

    def who_can(self) -> bool:
        found = self.document("who-can", self.operation, *self.resource)
        return self.principal in [each["principal"] for each in found["principals"]]

    def can(self) -> bool:
        found = self.document("can", self.principal, *self.resource)
        return {self.operation: True} in [
            {each["operation"]: each["allowed"]} for each in found["operations"]
        ]

    def what_can(self) -> bool:
        found = self.document("what-can", self.principal)
        patterns = [(each["resource_type"], each["pattern"]) for each in found["resources"]]
        literal = {"pattern_type": "LITERAL", "resource_name": self.name}
        return (self.type.name, literal) in patterns

    def explain(self) -> bool:
        found = self.document("explain", *self.question)
        assert found["question"]["resource_name"] == self.name
        return found["decision"] is True

    def history(self) -> bool:
        return self.document("history", *self.question)["answers"][-1]["decision"] is True

    def history_of_acls(self) -> bool:
        words = ("--principal", self.principal, *self.resource)
        return bool(self.document("history", *words)["changes"])

    def export(self) -> bool:
        """Plans, exports and imports share the flags that select ACLs."""
        flags = ("--principal", self.principal, *self.resource, "--to", "-", "--format", "json")
        printed = run_main("acls", "export", "--log-dir", self.log_dir, *flags)
        return bool(json.loads(printed.out)["acls"])

    def policy(self, fields: object) -> bool:
        path = self.log_dir / "tests.yaml"
        path.write_text(json.dumps({"tests": [fields]}))
        code = main(["test", str(path), "--log-dir", str(self.log_dir), *KNOWN_SETTINGS])
        assert code in (0, 3)
        return code == 0

    def policy_fields(self) -> bool:
        kind = self.flag.replace("-", "_")
        return self.policy(
            {"principal": self.principal, "may": self.operation, kind: {"literal": self.name}}
        )

    def policy_sentence(self) -> bool:
        return self.policy(f"'{self.principal}' may {self.operation} {self.flag} '{self.name}'")

    def place(self) -> ConsolePlace:
        acls = (grant(self.type, each, each) for each in NAMES)
        return ConsolePlace(None, *acls, log_dir=self.log_dir)

    def console(self, path: str, fields: dict[str, str]) -> str:
        async def ask() -> str:
            status, page = await self.place().get(path, **fields)
            assert status == 200
            return page

        return trio.run(ask)

    def console_explain(self) -> bool:
        return ">Allowed</h2>" in self.console(EXPLAIN, self.fields)

    def console_who(self) -> bool:
        fields = {key: value for key, value in self.fields.items() if key != "principal"}
        return "Rows: 2." in self.console(WHO, fields)  # with the super user

    def console_what(self) -> bool:
        fields = {key: value for key, value in self.fields.items() if key != "operation"}
        return "Rows: 0." not in self.console(WHAT, fields)

    def rest(self) -> bool:
        document = {
            "subject": {"type": "user", "id": self.principal.removeprefix("User:")},
            "action": {"name": self.operation},
            "resource": {"type": self.type.name.lower(), "id": self.name},
        }

        async def ask() -> Response:
            headers = {b"host": b"localhost", b"content-type": b"application/json"}
            body = json.dumps(document).encode()
            request = Request("POST", "/access/v1/evaluation", "", headers, body)
            return await answer_of(self.place().decisions(request))

        return json.loads(trio.run(ask).body)["decision"] is True


SURFACES: dict[str, Callable[[Asked], bool]] = {
    name: each
    for name, each in vars(Asked).items()
    if getattr(each, "__annotations__", None) == {"return": bool}
}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    grants = [grant(kind, name, name) for kind in OPERATIONS for name in NAMES]
    write_log(folder, [added(number, each) for number, each in enumerate(grants, 1)])
    return folder


@pytest.mark.parametrize("flag", RESOURCE_FLAGS)
@pytest.mark.parametrize("surface", SURFACES)
def test_name_is_neither_split_nor_trimmed(log_dir: Path, surface: str, flag: str) -> None:
    ask = SURFACES[surface]
    for name in NAMES:
        assert ask(Asked(log_dir, flag, name, name)), name
    for name in OTHERS:
        assert not ask(Asked(log_dir, flag, name, name)), name


def test_every_surface_is_asked() -> None:
    assert len(SURFACES) == 13


HOSTILE = "a\n\x1b[2J\r\x07\x7f\x85\u2028\u202e\x9bEND"
"""Line breaks, what terminals obey in 7 and in 8 bits, and a mark that reorders text."""

USER = f"User:{HOSTILE}"
ACLS = (
    acl(USER, topic=HOSTILE),
    acl(USER, topic=HOSTILE, pattern="PREFIXED", host=HOSTILE),
    acl("User:*", topic=HOSTILE, deny=True, host=HOSTILE),
    acl(f"User:b{HOSTILE}", "ALL", cluster=True),
)
QUESTION = ("--principal", USER, "--operation", "READ", "--topic", HOSTILE)
COMMANDS = {
    "check-log": ("check-log", "DIR"), "explain": ("explain", *QUESTION, "--log-dir", "DIR"),
    "who-can": ("who-can", "READ", "--topic", HOSTILE, "--log-dir", "DIR"),
    "what-can": ("what-can", USER, "--log-dir", "DIR"),
    "can": ("can", USER, "--topic", HOSTILE, "--log-dir", "DIR"),
    "history": ("history", *QUESTION[:2], "--topic", HOSTILE, "--log-dir", "DIR"),
    "test": ("test", "TESTS", "--log-dir", "DIR"),
    "plan": ("acls", "plan", "DESIRED", "--log-dir", "DIR", "--out", "PLAN"),
    "shell": ("shell", "--log-dir", "DIR", "tree", "/"), "doctor": ("doctor", "--config", "CONFIG"),
}  # fmt: skip


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    """Return the files that stand for words in capital letters."""
    log_dir = tmp_path / "log"
    topic = TopicAdded(HOSTILE, acl_id(9))
    changes = [added(number, each) for number, each in enumerate(ACLS, 1)]
    write_log(log_dir, changes, [topic], [removed(4)])
    tests = {"tests": [{"name": HOSTILE, "principal": USER, "may_not": "READ", "topic": HOSTILE}]}
    (tmp_path / "tests.yaml").write_text(json.dumps(tests))
    (tmp_path / "desired.json").write_text(json.dumps({"acls": []}))
    return {
        "DIR": str(log_dir), "TESTS": str(tmp_path / "tests.yaml"),
        "DESIRED": str(tmp_path / "desired.json"), "PLAN": str(tmp_path / "plan.json"),
        "CONFIG": str(write_config(tmp_path, log_dir)),
    }  # fmt: skip


def check_output(arguments: list[str], *, names: bool = True) -> str:
    """Run a command, and check each line that it prints; return its standard output."""
    out, errors = run_main(*arguments, code=(0, 1, 2, 3, 10))
    assert ("END" in out + errors) or not names
    for line in (out + errors).split("\n"):
        assert line.isprintable(), line
        assert not line.startswith(("\x1b", "END"))
    return out


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_a_log_are_escaped(words: dict[str, str], command: str) -> None:
    arguments = [words.get(each, each) for each in COMMANDS[command]]
    check_output(arguments, names=command not in ("check-log", "doctor"))


@pytest.mark.parametrize("command", ["who-can", "what-can", "can", "explain", "history"])
def test_names_in_json_are_escaped_and_read_back(words: dict[str, str], command: str) -> None:
    arguments = [words.get(each, each) for each in COMMANDS[command]]
    document = json.loads(check_output([*arguments, "--json"]))
    assert any(HOSTILE in text for text in texts_of(document))


def texts_of(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict | list):
        for each in document.values() if isinstance(document, dict) else document:
            yield from texts_of(each)


def test_names_that_a_repair_reports_are_escaped(tmp_path: Path) -> None:
    """The batch before a removal is damaged, so the ACL that was removed would come back."""
    write_log(tmp_path, [added(1, ACLS[0])], [added(2, ACLS[1])], [removed(1)])
    (segment,) = tmp_path.glob("*/*.log")
    data = segment.read_bytes()
    segment.write_bytes(flipped(data, data.rindex(USER.encode())))
    assert "would come back" in check_output(["check-log", str(tmp_path), "--repair"])


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "shell"])
def test_names_in_the_fault_of_a_log_are_escaped(
    words: dict[str, str], tmp_path: Path, command: str
) -> None:
    """The second change adds the ACL of the first one again."""
    bad = tmp_path / "bad"
    write_log(bad, [added(1, ACLS[0])], [added(2, ACLS[0])])
    files = words | {"DIR": str(bad), "CONFIG": str(write_config(tmp_path, bad))}
    check_output([files.get(each, each) for each in COMMANDS[command]])
