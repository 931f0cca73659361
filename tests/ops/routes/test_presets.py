"""Presets answer each operation of their products' published APIs, and ask what Kafka would.

A line of ``tests/data/rest_apis`` is an operation: its method, its path, and what it needs of
Kafka, such as ``Produce:topic``, where the variable ``{topic}`` of the path has the name.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.routes.preset import read_presets
from authorizerd.config.routes.document import parse_routes_file
from authorizerd.config.routes.route_tests import Asked, ask_table
from authorizerd.config.routes.table import Line, RouteTable, parse_route

APIS = Path(__file__).parents[2] / "data/rest_apis"
TEXTS = read_presets()
PRESETS = [*TEXTS]

CLUSTER = "CLUSTER kafka-cluster"
NEEDS = {
    "Produce": "WRITE TOPIC {}",
    "Metadata": "DESCRIBE TOPIC {}",
    "ListOffsets": "DESCRIBE TOPIC {}",
    "CreatePartitions": "ALTER TOPIC {}",
    "DeleteTopics": "DELETE TOPIC {}",
    "DescribeTopicConfigs": "DESCRIBE_CONFIGS TOPIC {}",
    "AlterTopicConfigs": "ALTER_CONFIGS TOPIC {}",
    "JoinGroup": "READ GROUP {}",
    "DescribeGroups": "DESCRIBE GROUP {}",
    "OffsetFetch": "DESCRIBE GROUP {}",
    "DescribeCluster": f"DESCRIBE {CLUSTER}",
    "ListTopics": f"DESCRIBE {CLUSTER}",
    "ListGroups": f"DESCRIBE {CLUSTER}",
    "ListPartitionReassignments": f"DESCRIBE {CLUSTER}",
    "DescribeAcls": f"DESCRIBE {CLUSTER}",
    "CreateAcls": f"ALTER {CLUSTER}",
    "DeleteAcls": f"ALTER {CLUSTER}",
    "DescribeBrokerConfigs": f"DESCRIBE_CONFIGS {CLUSTER}",
    "AlterBrokerConfigs": f"ALTER_CONFIGS {CLUSTER}",
    "DescribeAllTopicConfigs": f"DESCRIBE_CONFIGS {CLUSTER}",
    # Kafka Connect: a sink connector's group stands for the connector.
    "DescribeConnector": "DESCRIBE GROUP connect-{}",
    "DescribeConnectorConfigs": "DESCRIBE_CONFIGS GROUP connect-{}",
    "DescribeAllConnectorConfigs": f"DESCRIBE_CONFIGS {CLUSTER}",
    "ControlConnector": "READ GROUP connect-{}",
    "DeleteConnector": "DELETE GROUP connect-{}",
    # Schema registries: a topic stands for its subjects, and _schemas for all of them.
    "FindSchema": "DESCRIBE TOPIC {}",
    "ReadSchema": "READ TOPIC {}",
    "RegisterSchema": "WRITE TOPIC {}",
    "WriteComment": "WRITE TOPIC {}",
    "DeleteSchema": "DELETE TOPIC {}",
    "DescribeSubjectConfig": "DESCRIBE_CONFIGS TOPIC {}",
    "AlterSubjectConfig": "ALTER_CONFIGS TOPIC {}",
    "AlterOwner": "ALTER TOPIC {}",
    "ReadAllSchemas": "READ TOPIC _schemas",
    "DescribeRegistry": "DESCRIBE TOPIC _schemas",
    "DescribeRegistryConfig": "DESCRIBE_CONFIGS TOPIC _schemas",
    "Administer": f"ALTER {CLUSTER}",
}
DENIED = {"NamedInBody", "NoTopic", "Probe", "Internal"}
"""Needs that no question expresses."""

SUBJECTS = ("subject", "artifactId")
VALUES = {"subject": "orders-value", "artifactId": "orders-value", "groupId": "default"}


class Operation(NamedTuple):
    """An operation of an API. ``needs``: pairs of a need and of the variable that has the name."""

    method: str
    path: str
    needs: tuple[tuple[str, str], ...]

    @property
    def is_denied(self) -> bool:
        return any(need in DENIED for need, _ in self.needs)

    @property
    def has_subject(self) -> bool:
        return any(name in SUBJECTS for _, name in self.needs)

    def get_target(self, **values: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: value_of(found[1], **values), self.path)

    def get_questions(self, **values: str) -> set[str]:
        return {NEEDS[need].format(name_of(name, **values)) for need, name in self.needs}


def value_of(variable: str, **values: str) -> str:
    return {**VALUES, **values}.get(variable, f"my-{variable}")


def name_of(variable: str, **values: str) -> str:
    """Return the name of the topic, group or connector that a variable of the path stands for."""
    value = value_of(variable, **values)
    return re.sub("-(key|value)$", "", value) if variable in SUBJECTS else value


@cache
def operations(preset: str) -> Sequence[Operation]:
    lines = (APIS / f"{preset}.txt").read_text().splitlines()
    return [_parse(*line.split()) for line in lines if not line.startswith("#")]


def _parse(method: str, path: str, *needs: str) -> Operation:
    pairs = (need.partition(":")[::2] for need in needs)
    return Operation(method, path, tuple((need, name) for need, name in pairs))


@cache
def read(preset: str) -> RouteTable:
    return parse_routes_file(TEXTS[preset], source=preset).table


def explain(operation: Operation, asked: Asked) -> str:
    return f"{operation.method} {operation.path}: {asked} {asked.denial}"


@pytest.mark.parametrize("subject", ["orders-value", "orders-key", "my-value-value", "my-key-key"])
@pytest.mark.parametrize("preset", PRESETS)
def test_each_operation_asks_what_it_needs_of_kafka(preset: str, subject: str) -> None:
    """An operation that names its topics elsewhere is denied by a route, which has the reason."""
    table, values = read(preset), dict.fromkeys(SUBJECTS, subject)
    for operation in operations(preset):
        asked, line = ask_table(table, operation.method, operation.get_target(**values))
        expected = set() if operation.is_denied else operation.get_questions(**values)
        assert {*asked.questions} == expected, explain(operation, asked)
        assert line is not None, explain(operation, asked)


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_opens_nothing_beyond_the_api(preset: str) -> None:
    table = read(preset)
    used = {
        (operation.method, line)
        for subject in ("orders-value", "orders-key")
        for operation in operations(preset)
        for target in [operation.get_target(**dict.fromkeys(SUBJECTS, subject))]
        for _, line in [ask_table(table, operation.method, target)]
    }
    opened = {
        (method, route.line)
        for route in table.routes
        if route.questions
        for method in route.methods
    }
    assert opened <= used


@pytest.mark.parametrize("preset", PRESETS)
def test_own_tests_of_a_preset_pass(preset: str) -> None:
    routes = parse_routes_file(TEXTS[preset], source=preset)
    assert routes.tests
    for test in routes.tests:
        asked, _ = ask_table(routes.table, test.method, test.target)
        assert asked.questions == test.expected.questions, test.line


REGISTRIES = ["apicurio-registry", "confluent-schema-registry", "karapace-registry"]


@pytest.mark.parametrize("subject", [
    "orders-com.acme.Order",  # TopicRecordNameStrategy
    "com.acme.Order",  # RecordNameStrategy
    "orders",  # Apicurio's SimpleTopicIdStrategy
    "-value", "value", "orders-VALUE", "orders-value%20", "orders_value", "orders-values",
])  # fmt: skip
@pytest.mark.parametrize("preset", REGISTRIES)
def test_subject_without_a_topic_is_denied(preset: str, subject: str) -> None:
    table = read(preset)
    for operation in filter(lambda each: each.has_subject, operations(preset)):
        target = operation.get_target(**dict.fromkeys(SUBJECTS, subject))
        asked, line = ask_table(table, operation.method, target)
        assert asked.questions == (), explain(operation, asked)
        is_hostile = subject in ("orders-VALUE", "orders-value%20")
        assert line is not None or is_hostile, explain(operation, asked)


CONTEXTS = {"confluent-schema-registry": "", "apicurio-registry": "/apis/ccompat/v7"}
"""The registries whose API has contexts, and its prefix."""


@pytest.mark.parametrize("context", [":.:", ":.other:", ":*:", "%3A.%3A", "::", ":"])
@pytest.mark.parametrize("preset", [*CONTEXTS])
def test_subject_in_a_context_is_denied(preset: str, context: str) -> None:
    """``:.:orders-value`` is ``orders-value`` itself, so the ACLs on ``orders`` would be evaded."""
    table = read(preset)
    for operation in operations(preset):
        if operation.has_subject and "{subject}" in operation.path:
            target = operation.get_target(subject=f"{context}orders-value")
            asked, line = ask_table(table, operation.method, target)
            assert asked.questions == (), explain(operation, asked)
            assert line is not None


@pytest.mark.parametrize("context", [".other", ":.:", "%2Eother"])
@pytest.mark.parametrize(("preset", "prefix"), CONTEXTS.items())
def test_path_of_a_context_is_denied(preset: str, prefix: str, context: str) -> None:
    table = read(preset)
    for operation in operations(preset):
        if operation.has_subject and "{subject}" in operation.path:
            inside = operation.get_target().removeprefix(prefix)
            asked, line = ask_table(table, operation.method, f"{prefix}/contexts/{context}{inside}")
            assert asked.questions == (), explain(operation, asked)
            assert line is not None


PARTS = st.lists(
    st.sampled_from(["orders", "-key", "-value", ":.", ":", ".", ":*:", "other", "-", "_", "%3A"]),
    min_size=1,
    max_size=6,
)


@given(PARTS)
@pytest.mark.parametrize("preset", REGISTRIES)
def test_subject_is_asked_about_by_its_own_topic(preset: str, parts: list[str]) -> None:
    """A naive reading of TopicNameStrategy, and of contexts, agrees with each question."""
    sent = "".join(parts)
    subject = unquote(sent)
    for operation in filter(lambda each: each.has_subject, operations(preset)):
        target = operation.get_target(**dict.fromkeys(SUBJECTS, sent))
        asked, _ = ask_table(read(preset), operation.method, target)
        for question in {*asked.questions} - {NEEDS["ReadAllSchemas"], NEEDS["Administer"]}:
            topic = question.rpartition(" TOPIC ")[2]
            assert subject in (f"{topic}-key", f"{topic}-value"), explain(operation, asked)
            has_context = "{subject}" in operation.path and subject.startswith(":")
            assert not has_context or preset not in CONTEXTS, explain(operation, asked)


def test_other_groups_of_apicurio_are_denied() -> None:
    table = read("apicurio-registry")
    for operation in operations("apicurio-registry"):
        if "{groupId}/artifacts/" in operation.path and "/admin/" not in operation.path:
            target = operation.get_target(groupId="other")
            asked, _ = ask_table(table, operation.method, target)
            assert asked.questions == (), explain(operation, asked)


@pytest.mark.parametrize("preset", [name for name in PRESETS if "sed 's|" in TEXTS[name]])
def test_command_for_another_prefix_works(preset: str) -> None:
    """Run the sed command of the comments."""
    found = re.search(r"sed 's\|(.+?)\|(.+?)\|'", TEXTS[preset])
    assert found is not None
    old, new = found.groups()
    text = "".join(line.replace(old, new, 1) for line in TEXTS[preset].splitlines(keepends=True))
    routes = parse_routes_file(text, source=preset)
    for test in routes.tests:
        asked, _ = ask_table(routes.table, test.method, test.target)
        assert asked.questions == test.expected.questions
    table = read(preset)
    for operation in operations(preset):
        target = f" {operation.get_target()}"
        before, _ = ask_table(table, operation.method, target.strip())
        after, _ = ask_table(routes.table, operation.method, target.replace(old, new).strip())
        assert before == after


@pytest.mark.parametrize("preset", PRESETS)
def test_routes_in_comments_are_valid(preset: str) -> None:
    """They are alternatives that a user may write into the file."""
    for text in re.findall(r"^ *#.*?- ([A-Z|]+ /\S+ -> .+)$", TEXTS[preset], re.MULTILINE):
        assert parse_route(Line(text, 1)).questions


@pytest.mark.parametrize("preset", ["confluent-rest-v2", "karapace-rest", "strimzi-bridge"])
def test_consumers_can_be_permitted_as_the_comment_says(preset: str) -> None:
    comment = r"  # (- GET\|POST /consumers/.*\n)((?:  - .* -> DENY the topics .*\n)+)"
    text, count = re.subn(comment, r"  \1", TEXTS[preset])
    assert count == 1
    table = parse_routes_file(text, source=preset).table
    for operation in operations(preset):
        if operation.path.startswith("/consumers/"):
            group = re.split("[{}]", operation.path)[1]
            asked, _ = ask_table(table, operation.method, operation.get_target())
            assert asked.questions == (f"READ GROUP my-{group}",)
