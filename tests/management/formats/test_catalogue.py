"""The catalogue of formats, the block ``manages`` of documents, and the page about them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from authorizerd.acl.model import Acl
from authorizerd.management.formats.catalogue import (
    FORMATS,
    PASTED_FORMATS,
    detect_format,
    read_acl_text,
)
from authorizerd.management.formats.document import read_managed
from authorizerd.management.formats.model import AclTextError, Loss, Scope
from authorizerd.management.formats.unread import NEXT_STEPS, decode_text
from authorizerd.management.plan.selector import Managed
from tests.management.formats.faults import check_fault
from tests.support.acls import acl


@pytest.mark.parametrize(("suffix", "text", "expected"), [
    (".yaml", "acls: []\n", "yaml"),
    (".YML", "", "yaml"),
    (".json", "{}", "json"),
    (".JSON", "acls: []", "json"),
    (".txt", "", "listing"),
    ("", "\nCurrent ACLs for resource `x`\n", "listing"),
    ("", "ACLs for principal `User:a`\n", "listing"),
    ("", "acls:\n- principal: a\n", "yaml"),
    ("", "acls: []\n", "yaml"),
    ("", '  {"acls": []}\n', "json"),
    ("", '{"path":"/kafka-acl","data":null}\n', "zookeeper"),
    (".txt", "anything else\n", "listing"),
    (".json", '\n{"principal": "User:a"}\n', "json-lines"),
    ("", '{ "resource_type" :', "json-lines"),
    ("", '{"acls": [{"principal": "User:a"}]}', "json"),
    (".yaml", "---\n# users\napiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n", "strimzi"),
    (".json", '{"kind": "List", "apiVersion": "v1", "items": []}', "strimzi"),
    ("", "apiVersion: v1\nkind: List\n", "strimzi"),
    (".yml", "---\ncontext: c\nservices: x\n", "julie"),
    (".yaml", "'context': c\n", "julie"),
    (".yaml", "settings:\n  x: y\nservices:\n  a:\n", "kafka-gitops"),
    (".yaml", "customUserAcls: {}\n", "kafka-gitops"),
    (".yaml", "topics:\n  services: {}\n", "kafka-gitops"),
    (".yaml", "settings:\n  files:\n    users: u.yaml\n", "kafka-gitops"),
    ("", "SLF4J: x\nCurrent ACLs for resource `x`\n", "listing"),
    ("", "\nPRINCIPAL   HOST  RESOURCE-TYPE  RESOURCE-NAME\n", "listing"),
    ("", "KafkaPrincipal,ResourceType,PatternType\n", "csv"),
    (".txt", '"Principal", ResourceType,PatternType\n', "csv"),
    (".csv", "anything else\n", "csv"),
    (".json", '{"format_version": "1.2", "kind": 1, "apiVersion": 2}', "terraform"),
    (".json", '{"resource": {"kafka_acl": {}}}', "terraform"),
    (".json", '{"resource": {"confluent_kafka_acl": {}}}', "terraform"),
    (".json", '{"acls": [{"resource_name": "\\"context\\":"}]}', "json"),
    (".yaml", "{acls: []}", "yaml"),
])  # fmt: skip
def test_suffix_or_content_decides_the_format(suffix: str, text: str, expected: str) -> None:
    assert detect_format(text, suffix).name == expected


def test_formats_are_found_by_their_name() -> None:
    assert all(FORMATS[name].name == name for name in FORMATS)


NAMES = "yaml, json, json-lines, listing, csv, strimzi, julie, kafka-gitops, terraform, zookeeper"


@pytest.mark.parametrize(("text", "suffix", "place"), [
    ("anything else\n", "", "line 1"),
    ('[{"principal": "User:a"}]', "", "line 1"),
    ('{"count": 2}\n{"count": 3}', "", "line 2"),
    ("things: []\n", ".yaml", "line 1, column 9: document"),
])  # fmt: skip
def test_error_of_an_unknown_text_names_the_formats(text: str, suffix: str, place: str) -> None:
    with pytest.raises(AclTextError) as refused:
        read_acl_text(text, suffix)
    assert refused.value.place == place
    assert refused.value.reason.endswith(
        f"; expected one of the formats {NAMES}; or pass the output of kafka-acls --list"
    )


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("ACLs for principal `User:a`\nx\n", ""), ("acls: x\n", ""), ('{"host": 1}', "")],
)
def test_error_of_a_text_in_a_format_says_only_what_is_wrong(text: str, suffix: str) -> None:
    with pytest.raises(AclTextError) as refused:
        read_acl_text(text, suffix)
    assert "formats" not in refused.value.reason


@pytest.mark.parametrize(("text", "suffix", "step"), [
    ('{"version": 4, "terraform_version": "1.9.0", "lineage": "a"}', ".tfstate", "show -json, and"),
    ('{\n"lineage": "a", "terraform_version": "1.9.0"}', ".json", "run terraform show -json, and"),
    ('resource "kafka_acl" "a" {\n  acl_host = "*"\n}\n', ".tf", "terraform plan -out tfplan &&"),
    ('# a\nterraform {\n}\n', "", "terraform plan -out tfplan &&"),
    ('module "a" { source = "./a" }\n', ".yaml", "terraform plan -out tfplan &&"),
    ('{"@level":"info","@message":"x"}\n', ".json", "terraform plan -out tfplan &&"),
    ("\nTerraform will perform the following actions:\n\n  # a.b\n", "", "terraform plan -out"),
    ("\nOpenTofu used the selected providers to\n", ".txt", "terraform plan -out tfplan &&"),
    ("PK\x03\x04\x14", "", "run terraform show -json FILE, and pass the output"),
    ('{"version":1,"acls":[{"principal":"User:a"}]}', "", "--from zookeeper://HOST:PORT"),
    ('{"acls":[{"principal":"User:a"}],"version":1}', ".json", "--from zookeeper://HOST:PORT"),
    ("Adding ACLs for resource `ResourcePattern(x)`: \n", "", "pass the output of kafka-acls"),
    ('{"topicPlans": [], "aclPlans": []}', ".json", "pass its state file"),
    ("roles:\n  - name: a\n", ".yaml", "append it to its topology, after a line with ---"),
    ("kind: KafkaUser\napiVersion: a\nmetadata: {{ .Values.a }}\n", ".yaml", "run helm template"),
    ("{{- if .Values.a }}\nacls: []\n", ".yaml", "run helm template, and pass the output"),
    *((text, suffix, "terraform plan -out tfplan &&") for text, suffix in (
        ('\x1b[32m+\x1b[0m resource "a" "b" {\n', ""), ("# a\nacls = [\n  {},\n]\n", ".tfvars"),
        ('include "root" {\n}\n', ".hcl"), ("import {\n  to = kafka_acl.a\n}\n", ".tf"),
        ("inputs = {\n}\n", ".hcl"), ("Use:\n  # a\n  - resource \"kafka_acl\" \"a\" {\n", ""),
    )),
    *((text, suffix, "run pulumi up, and pass the output of kafka-acls") for text, suffix in (
        ('{"steps": [{"urn": "urn:pulumi:a::b::kafka:index/acl:Acl::c"}]}', ".json"),
        ('{"version": 3, "deployment": {"acls": 1}}', ".json"), ("name: acls\nruntime: yaml\n", ""),
    )),
    ("   Principal | Permission | Operation\n", "", "pass the output of kafka-acls --list"),
    ("context: ${A}\nprojects: {}\n", ".yaml", "for example by envsubst"),
])  # fmt: skip
def test_error_of_a_text_that_needs_a_step_names_it(text: str, suffix: str, step: str) -> None:
    with pytest.raises(AclTextError) as refused:
        read_acl_text(text, suffix)
    assert step in refused.value.reason


@pytest.mark.parametrize(("data", "place", "step"), [
    (b"PK\x03\x04\xff", "byte 4", "run terraform show -json FILE, and pass the output"),
    (b"\x1f\x8b\x08\x00", "byte 1", "a file of gzip is not read: decompress it"),
    ("acls: []".encode("utf-16"), "byte 0", "Out-File -Encoding utf8"),
    (b"${A} \xff", "byte 5", "not valid UTF-8"),
])  # fmt: skip
def test_error_of_bytes_that_are_no_text_names_the_step(data: bytes, place: str, step: str) -> None:
    check_fault(decode_text, data, place, step)


def test_text_may_begin_with_a_byte_order_mark() -> None:
    assert decode_text(b"\xef\xbb\xbfacls: []") == "acls: []"


def test_other_formats_than_the_accepted_ones_are_named() -> None:
    with pytest.raises(AclTextError) as refused:
        read_acl_text("acls: []", "", PASTED_FORMATS)
    assert str(refused.value) == (
        "line 1: expected one of the formats listing, json-lines, json, found yaml"
    )


def test_loss_is_one_line() -> None:
    lost = acl("User:a\nb")
    assert str(Loss(lost, "too long")).startswith("StandardAcl[resourceType=TOPIC")
    assert str(Loss(lost, "too long")).endswith("]: too long")
    assert str(Loss(None, "roles\n")) == "roles\\n"
    assert "\n" not in str(Loss(lost, "too\nlong"))


def test_scope_includes_all_acls_of_its_principals_and_single_ones() -> None:
    single = acl("User:c", topic="single")
    scope = Scope(principals=frozenset(("User:a",)), acls=frozenset((single,)))
    managed: list[Acl] = [acl("User:a"), acl("User:a", group="g"), single]
    assert all(map(scope.includes, managed))
    assert not any(map(scope.includes, (acl("User:b"), acl("User:c", topic="other"))))


TEXT = """
manages:
  - principal_prefix: "User:team-a-"
  - {resource_type: topic, resource_name: orders, pattern_type: match}
  - {resource_type: Group, resource_name_prefix: team-a., operation: describe_configs}
acls: []
"""


def test_entries_are_read() -> None:
    read = FORMATS["yaml"].read(TEXT)
    assert read.scope is not None
    assert read.scope.entries == (
        Managed(principal_prefix="User:team-a-"),
        Managed(resource_type="TOPIC", resource_name="orders", pattern_type="MATCH"),
        Managed(
            resource_type="GROUP", resource_name_prefix="team-a.", operation="DESCRIBE_CONFIGS"
        ),
    )
    assert read.scope.includes(acl("User:team-a-1"))
    assert not read.scope.includes(acl("User:other"))


def test_document_without_the_block_manages_everything() -> None:
    assert FORMATS["json"].read('{"acls": []}').scope is None


@pytest.mark.parametrize(("manages", "place", "reason"), [
    ([], "manages", "expected at least one entry, found none"),
    (None, "manages", "expected a list of entries, found nothing"),
    ([{}], "manages[0]", "expected at least one field"),
    (["User:a"], "manages[0]", "expected a mapping, found str"),
    ([{"principals": "User:a"}], "manages[0]", "'principals' (did you mean principal?)"),
    ([{"principal": 1}], "manages[0].principal", "expected text in quotes, found int"),
    ([{"principal": "alice"}], "manages[0].principal", "expected Type:name"),
    ([{"resource_type": "QUEUE"}], "manages[0].resource_type", "unknown ResourceType"),
    ([{"resource_type": "ANY"}], "manages[0]", "Invalid enum value 'ANY'"),
    ([{"resource_name": "t"}], "manages[0]", "expected resource_type"),
    ([{"principal": "User:a"}, {"principal_prefix": ""}], "manages[1].principal_prefix",
     "found an empty one"),
])  # fmt: skip
def test_invalid_entry_is_rejected(manages: Any, place: str, reason: str) -> None:  # noqa: ANN401
    check_fault(read_managed, {"manages": manages, "acls": []}, place, reason)


PAGE: Final = (Path(__file__).parents[3] / "docs/acl-formats.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"^```(?:yaml|json)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES: Final = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))

ROWS: Final[dict[str, tuple[Acl, ...]]] = {
    "ALLOW, any host, literal or prefixed name": (acl(), acl(pattern="PREFIXED")),
    "DENY, also with a prefix": (acl(deny=True), acl(deny=True, pattern="PREFIXED")),
    "for one host, also IPv6": (acl(host="10.0.0.7"), acl(host="0:0:0:0:0:0:0:1")),
    "for every topic (`*`)": (acl(topic="*"),),
    "of `User:CN=a`": (acl("User:CN=a"),),
    "of `User:CN=a,O=b`, `User:Bob` or `User:a_b`": (
        acl("User:CN=a,O=b"),
        acl("User:Bob"),
        acl("User:a_b"),
    ),
    "of `User:*` or `User:ANONYMOUS`": (acl("User:*"), acl("User:ANONYMOUS")),
    "of `Group:a`": (acl("Group:a"),),
    "on a delegation token": (acl(delegation_token="x"),),
    "on a user, or CREATE_TOKENS": (acl(user="User:b"), acl(operation="CREATE_TOKENS")),
    "TWO_PHASE_COMMIT": (acl(operation="TWO_PHASE_COMMIT", transactional_id="x"),),
    "a name with a line break": (acl(topic="a\nb"),),
    "a principal with `, host=`": (acl("User:a, host=b"),),
    "a name in which an accent is a character of its own": (acl(topic="e\u0301"),),
    "a code of a later Kafka version": (acl(operation=99), acl(pattern=99)),
}
"""For each row of the table: ACLs of this kind, which a format can either all say or not."""


def table() -> Iterator[tuple[str, str, str]]:
    """Yield the kind of ACL, the format and the cell of each field of the table."""
    lines = PAGE.partition("## What each format can say\n")[2].partition("\n## ")[0].split("\n")
    heading, _, *rows = (line.strip("| ").split(" | ") for line in lines if line.startswith("|"))
    for kind, *cells in rows:
        for names, cell in zip(heading[1:], cells, strict=True):
            yield from ((kind, name, cell) for name in names.split(", "))


def answer(name: str, one: Acl) -> str:
    return "no" if FORMATS[name].write([one]).losses else "yes"


@pytest.mark.parametrize(("kind", "name", "cell"), list(table()))
def test_table_says_what_each_format_can_say(kind: str, name: str, cell: str) -> None:
    assert {answer(name, one) for one in ROWS[kind]} == {cell}


def cells(section: str) -> list[list[str]]:
    """Return the cells of the rows of the table in a section, without its heading."""
    text = PAGE.partition(f"{section}\n")[2].partition("\n#")[0]
    return [line.strip("| ").split(" | ") for line in text.split("\n") if line.startswith("|")][2:]


def test_page_has_the_list_of_formats_and_of_texts_that_are_not_read() -> None:
    assert [row[:2] for row in cells("# Formats of ACLs")] == [
        [f"`{each.name}`", each.help] for each in FORMATS.values()
    ]
    assert cells("### Texts that are not read") == [[each.what, each.step] for each in NEXT_STEPS]


def test_table_has_all_rows_and_formats() -> None:
    assert {kind for kind, _, _ in table()} == ROWS.keys()
    assert {name for _, name, _ in table()} == FORMATS.keys() - {"zookeeper"}


@pytest.mark.parametrize(
    ("name", "text", "meaning"),
    [
        (name, *example)
        for name, example in zip(
            ("strimzi", "julie", "kafka-gitops", "terraform"), EXAMPLES, strict=True
        )
    ],
    ids=lambda value: value[:12],
)
def test_example_means_what_the_page_says(name: str, text: str, meaning: str) -> None:
    for suffix in (".json" if name == "terraform" else ".yaml", ""):
        assert detect_format(text, suffix).name == name
    found = FORMATS[name].read(text)
    assert found.losses == ()
    assert FORMATS["yaml"].write(found.acls).text == meaning
    assert set(FORMATS["yaml"].read(meaning).acls) == set(found.acls)


def test_plan_of_the_page_manages_what_it_deletes() -> None:
    scope = FORMATS["terraform"].read(EXAMPLES[-1][0]).scope
    assert scope is not None
    assert scope.acls == {
        acl("User:shop", "WRITE", topic="orders"),
        acl("User:shop", "READ", topic="prices"),
    }
