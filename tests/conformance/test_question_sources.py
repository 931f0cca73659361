"""A real broker and its log give the same answers to questions about access."""

import shlex
from collections.abc import Iterator

import pytest

from authorizerd.cli.main import main
from tests.conformance.kafka_clients import create_topics
from tests.kafka_rig.broker import ADMIN, Broker
from tests.support.acls import KNOWN_SETTINGS
from tests.support.fixture_types import Capture

TOPICS = ("asked-1", "asked-2", "asked-secret")
ACLS = (
    "--allow-principal User:asker --operation Read --topic asked-1",
    "--allow-principal User:asker --operation All --topic asked- "
    "--resource-pattern-type prefixed --allow-host 10.0.0.7",
    "--deny-principal User:* --operation All --topic asked-secret",
)
QUESTIONS = (
    "who-can read --topic asked-1",
    "who-can write --topic asked-secret",
    "what-can User:asker",
    "what-can User:asker --host 10.0.0.7",
    "can User:asker --topic asked-2",
    "explain --principal User:asker --operation write --topic asked-secret --host 10.0.0.7",
)


def change(broker: Broker, action: str, *acls: str) -> None:
    for words in acls:
        assert main(["acls", *connection(broker), action, *words.split()]) == 0


def connection(broker: Broker, user: str = ADMIN) -> list[str]:
    config = broker.client_config(user)
    return ["--bootstrap-server", broker.sasl_plaintext, "--command-config", str(config)]


@pytest.fixture(scope="module")
def asked(broker: Broker) -> Iterator[Broker]:
    """Return a broker with topics and ACLs, and remove the ACLs at the end."""
    create_topics(broker, ADMIN, *TOPICS)
    change(broker, "--add", *ACLS)
    yield broker
    change(broker, "--remove", *(f"{words} --force" for words in ACLS))


@pytest.mark.parametrize("words", QUESTIONS)
def test_broker_and_its_log_give_the_same_answer(
    asked: Broker, capsys: Capture, words: str
) -> None:
    found = []
    for source in (connection(asked), ["--log-dir", str(asked.log_dir)]):
        capsys.readouterr()
        settings = [*KNOWN_SETTINGS, "--super-users", f"User:{ADMIN}"]
        code = main([*words.split(), *source, *settings])
        printed = capsys.readouterr().out.replace(asked.sasl_plaintext, "HOST:PORT")
        lines = [
            line
            for line in printed.splitlines()
            if not line.startswith(("at log offset ", "as listed by ", "with super.users="))
        ]
        found.append((code, lines))
    assert found[0] == found[1]
    assert found[0][1]


def test_known_topics_are_those_of_the_broker(asked: Broker, capsys: Capture) -> None:
    words = ["what-can", "User:asker", "--host", "10.0.0.7", "--operation", "write"]
    assert main([*words, *connection(asked)]) == 0
    assert "    known topics: asked-1, asked-2\n" in capsys.readouterr().out


def test_broker_hides_the_values_that_are_set(asked: Broker, capsys: Capture) -> None:
    """Kafka describes super.users as a sensitive key, because it does not know its type."""
    main(["who-can", "read", "--topic", "asked-1", *connection(asked)])
    hidden = "(it is set, but the broker does not show its value)"
    printed = capsys.readouterr().out
    assert f"super.users unknown {hidden}" in printed
    assert "\n  and the brokers' super users, which are unknown\n" in printed


def test_remedy_for_a_missing_right_works(asked: Broker, capsys: Capture) -> None:
    """The error has the command that grants the right."""
    words = ["who-can", "read", "--topic", "asked-1", *connection(asked, "alice")]
    assert main(words) == 1
    first, second, command, *_ = capsys.readouterr().err.splitlines()
    assert first.endswith("User:alice may not list ACLs")
    assert "DESCRIBE on the cluster" in second
    program, *arguments = shlex.split(command)
    assert program == "authorizerd"
    admin = ["--command-config", str(asked.client_config(ADMIN))]
    assert main([*arguments, *admin]) == 0
    try:
        capsys.readouterr()
        assert main(words) == 0
        assert "shows its settings only to users with DESCRIBE_CONFIGS" in capsys.readouterr().out
    finally:
        arguments[arguments.index("--add")] = "--remove"
        assert main([*arguments, *admin, "--force"]) == 0
