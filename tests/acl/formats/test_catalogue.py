from __future__ import annotations

import pytest

from authorizerd.acl.formats.catalogue import FORMATS, detect_format, read_acl_text
from authorizerd.acl.formats.model import AclTextError, Loss, Scope
from authorizerd.acl.model import Acl
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
    (".yaml", "---\n# users\napiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\n", "strimzi"),
    (".json", '{"kind": "List", "apiVersion": "v1", "items": []}', "strimzi"),
    ("", "apiVersion: v1\nkind: List\n", "strimzi"),
    (".yml", "---\ncontext: c\nservices: x\n", "julie"),
    (".yaml", "'context': c\n", "julie"),
    (".yaml", "settings:\n  x: y\nservices:\n  a:\n", "kafka-gitops"),
    (".yaml", "customUserAcls: {}\n", "kafka-gitops"),
    (".yaml", "topics:\n  services: {}\n", "yaml"),
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


def test_text_without_a_format_is_rejected_with_its_place() -> None:
    with pytest.raises(AclTextError) as refused:
        read_acl_text("anything else\n", "")
    assert refused.value.place == "line 1"


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
