import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.management.formats.model import Loss
from authorizerd.management.formats.terraform import read, write
from authorizerd.management.formats.terraform_values import (
    escape_template,
    unescape_template,
    why_not_string,
)
from tests.management.formats.faults import check_fault
from tests.support.acls import acl

ORDERS = {
    "id": "User:shop|*|Write|Allow|Topic|orders|Literal", "acl_host": "*", "acl_operation": "Write",
    "acl_permission_type": "Allow", "acl_principal": "User:shop", "resource_name": "orders",
    "resource_pattern_type_filter": "Literal", "resource_type": "Topic",
}  # fmt: skip
CLOUD = {
    "credentials": [],
    "host": "*",
    "id": "lkc-1/TRANSACTIONAL_ID#pay#PREFIXED#User:sa-1#*#WRITE#DENY",
    "kafka_cluster": [{"id": "lkc-1"}],
    "operation": "WRITE",
    "pattern_type": "PREFIXED",
    "permission": "DENY",
    "principal": "User:sa-1",
    "resource_name": "pay",
    "resource_type": "TRANSACTIONAL_ID",
    "rest_endpoint": "https://lkc-1:443",
}
SHOP = acl("User:shop", "WRITE", topic="orders")


def kafka(**fields: object) -> dict[str, Any]:
    """Return the values of a kafka_acl; a field of the value ``...`` is missing."""
    return {key: value for key, value in {**ORDERS, **fields}.items() if value is not ...}


def resource(values: dict[str, Any], kind: str = "kafka_acl", name: str = "a") -> dict[str, Any]:
    return {
        "address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name,
        "provider_name": "registry.terraform.io/mongey/kafka", "schema_version": 1,
        "values": values, "sensitive_values": {},
    }  # fmt: skip


def change(
    actions: list[str],
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    kind: str = "kafka_acl",
    **unknown: Any,  # noqa: ANN401 - true in place of each unknown value
) -> dict[str, Any]:
    return {
        "address": f"{kind}.a", "mode": "managed", "type": kind, "name": "a",
        "change": {"actions": actions, "before": before, "after": after, "after_unknown": unknown},
    }  # fmt: skip


def plan(*resources: dict[str, Any], **others: Any) -> str:  # noqa: ANN401 - any JSON
    values = {"outputs": {}, "root_module": {"resources": list(resources)}}
    return json.dumps(
        {
            "format_version": "1.2", "terraform_version": "1.9.5", "planned_values": values,
            "errored": False, **others,
        }
    )  # fmt: skip


def test_acls_of_all_modules_are_read() -> None:
    document = json.loads(plan(resource(ORDERS)))
    document["planned_values"]["root_module"]["child_modules"] = [
        {
            "address": "module.x",
            "resources": [
                resource(kafka(acl_operation="DescribeConfigs", acl_permission_type="Deny")),
                resource({"name": "orders"}, "kafka_topic"),
            ],
            "child_modules": [
                {"resources": [
                    resource(kafka(resource_type="TransactionalID", acl_host="10.0.0.7")),
                    resource(ORDERS),
                    {**resource(kafka(resource_name="data")), "mode": "data"},
                ]},
            ],
        }
    ]  # fmt: skip
    found = read(json.dumps(document))
    assert found.acls == (
        SHOP,
        acl("User:shop", "DESCRIBE_CONFIGS", topic="orders", deny=True),
        acl("User:shop", "WRITE", transactional_id="orders", host="10.0.0.7"),
    )
    assert found.losses == ()
    assert found.scope is not None
    assert found.scope.acls == {*found.acls}
    state = {"format_version": "1.0", "values": document["planned_values"]}
    assert read(json.dumps(state)) == found


def test_acls_of_confluent_are_read() -> None:
    expected = acl("User:sa-1", "WRITE", transactional_id="pay", pattern="PREFIXED", deny=True)
    assert read(plan(resource(CLOUD, "confluent_kafka_acl"))).acls == (expected,)


@pytest.mark.parametrize(("actions", "manages_old"), [
    (["delete"], True),
    (["delete", "create"], True),
    (["create", "delete"], True),
    (["no-op"], False),
    (["forget"], False),
])  # fmt: skip
def test_scope_has_what_a_plan_deletes(actions: list[str], manages_old: bool) -> None:
    text = plan(resource(ORDERS), resource_changes=[
        change(actions, kafka(resource_name="old"), ORDERS)
    ])  # fmt: skip
    found = read(text)
    assert found.acls == (SHOP,)
    assert found.scope is not None
    assert found.scope.includes(acl("User:shop", "WRITE", topic="old")) is manages_old
    assert not found.scope.includes(acl("User:shop", "READ", topic="orders"))


def test_attribute_that_is_known_after_the_plan_is_a_loss() -> None:
    changes = [change(["create"], None, {}, acl_principal=True)]
    found = read(plan(resource(kafka(acl_principal=...)), resource_changes=changes))
    assert found.acls == ()
    assert found.losses == (
        Loss(None, "kafka_acl.a: acl_principal is known only after Terraform has applied the plan"),
    )


def test_deleted_copy_does_not_hide_what_is_known_only_later() -> None:
    """A default in its place could be another pattern than the one that Terraform creates."""
    changes = [
        change(["create"], None, {}, resource_pattern_type_filter=True),
        {**change(["delete"], ORDERS, None), "deposed": "00000000"},
    ]
    values = kafka(resource_pattern_type_filter=...)
    assert read(plan(resource(values), resource_changes=changes)).acls == ()


GRANT: dict[str, Any] = {"permission": [{"topic_name": "a", "role": "CONSUMER"}]}
USER = "kind: KafkaUser\nmetadata: {name: a}\n"


@pytest.mark.parametrize(("kind", "values", "is_lost"), [
    *((kind, {"x": 1}, True) for kind in (
        "confluent_role_binding", "aiven_kafka_acl", "ovh_cloud_project_database_kafka_acl",
        "redpanda_acl", "confluentacl_acl", "rhoas_acl", "tencentcloud_ckafka_acl_rule",
        "huaweicloud_dms_kafka_permissions", "kafka_acls", "google_managed_kafka_acl",
    )),
    *((kind, {"x": 1}, False) for kind in (
        "kafka_topic", "kafka_quota", "aws_network_acl", "kafka_user_scram_credential",
        "yandex_mdb_kafka_user", "digitalocean_database_user", "confluent_access_point",
    )),
    ("yandex_mdb_kafka_user", GRANT, True),
    ("yandex_mdb_kafka_cluster", {"user": [{"name": "a"}, GRANT]}, True),
    ("digitalocean_database_user", {"settings": [{"acl": [{"topic": "a"}]}]}, True),
    ("digitalocean_database_user", {"settings": [{"acl": []}]}, False),
    ("kubernetes_manifest", {"manifest": {"acls": [{"resource": {"type": "Group"}}]}}, True),
    ("kubectl_manifest", {"yaml_body": USER}, True),
    ("kubectl_manifest", {"yaml_body": f"kind: CustomResourceDefinition\n{USER}"}, False),
    ("aws_s3_bucket_acl", {"acl": "private", "permission": [{"grantee": "a"}]}, False),
    ("postgresql_grant", {"permissions": ["SELECT"], "group": "topic"}, False),
])  # fmt: skip
def test_other_resources_that_grant_access_are_losses(
    kind: str, values: dict[str, Any], is_lost: bool
) -> None:
    step = "apply it, and pass the output of kafka-acls --list"
    expected = (Loss(None, f"{kind}.a: {kind} is not read: {step}"),) if is_lost else ()
    assert read(plan(resource(values, kind))).losses == expected
    unknown = [change(["create"], None, {}, kind, **values)]
    assert read(plan(resource({}, kind), resource_changes=unknown)).losses == expected
    expected = (Loss(None, f"resource.{kind}: {kind} is not read: {step}"),) if is_lost else ()
    assert read(json.dumps({"resource": {kind: [{"a": values}]}})).losses == expected


@pytest.mark.parametrize(("complete", "losses"), [(True, 0), (False, 1)])
def test_plan_that_leaves_changes_out_has_a_loss(complete: bool, losses: int) -> None:
    found = read(plan(resource(ORDERS), complete=complete))
    assert (found.acls, len(found.losses)) == ((SHOP,), losses)


def configuration(value: object) -> str:
    return json.dumps({"resource": {"kafka_acl": {"a": kafka(id=..., resource_name=value)}}})


@pytest.mark.parametrize(("template", "name"), [
    ("orders", "orders"), ("$${x}", "${x}"), ("%%{if}", "%{if}"), ("a$$b%%", "a$$b%%"), ("$", "$"),
    ("$$${x}", "$${x}"), ("$$${{", "$${{"), ("e\u0301", "\u00e9"), ("\ufeffx", "x"),
])  # fmt: skip
def test_configuration_without_expressions_is_read(template: str, name: str) -> None:
    assert read(configuration(template)).acls == (acl("User:shop", "WRITE", topic=name),)


def test_settings_of_a_configuration_are_ignored() -> None:
    body = kafka(id=..., depends_on=["x"], provider="kafka.b", lifecycle={"prevent_destroy": True})
    document = {
        "terraform": {}, "provider": {}, "variable": {}, "resource": {"kafka_acl": {"a": body}},
        "module": {"x": {"source": "./x"}},
    }  # fmt: skip
    found = read(json.dumps(document))
    assert found.acls == (SHOP,)
    (loss,) = found.losses
    assert loss.reason.startswith("module.x: a module is read only in a plan")


@given(st.text("${}%~ab\\", max_size=8))
def test_templates_have_the_value_that_was_written(text: str) -> None:
    if why_not_string(text) is None:
        assert unescape_template("x", escape_template(text)) == text


OTHER_CLOUD = {**CLOUD, "kafka_cluster": [{"id": "lkc-2"}]}
CONFIGURATION = {"root_module": {
    "resources": [{"type": "kafka_acl", "provider_config_key": "kafka"}],
    "module_calls": {"x": {"module": {
        "resources": [{"type": "kafka_acl", "provider_config_key": "kafka.other"}]
    }}},
}}  # fmt: skip


def two_providers(name: str) -> str:
    bodies = {"a": kafka(id=...), "b": kafka(id=..., provider=name)}
    return json.dumps({"resource": {"kafka_acl": bodies}})


@pytest.mark.parametrize(("text", "place", "reason"), [
    ("[]", "document", "expected a mapping, found list"),
    ("{", "line 1", "not JSON"),
    ('{"format_version": "2.0"}', "format_version", "expected 0.x or 1.x, found '2.0'"),
    ('{"format_version": 1}', "format_version", "found int '1'"),
    (plan(errored=True), "errored", "expected a complete plan"),
    (plan(resource(kafka(acl_principal=...))), "kafka_acl.a", "missing key 'acl_principal'"),
    (plan(resource(kafka(acl_group="x"))), "kafka_acl.a", "unknown key 'acl_group'"),
    (plan(resource(kafka(acl_operation="READ"))), "kafka_acl.a.acl_operation", "found 'READ'"),
    (plan(resource(kafka(acl_operation="Any"))), "kafka_acl.a.acl_operation", "found 'Any'"),
    (plan(resource(kafka(resource_type="User"))), "kafka_acl.a.resource_type", "found 'User'"),
    (plan(resource(kafka(resource_pattern_type_filter="Match"))),
     "kafka_acl.a.resource_pattern_type_filter", "expected one of Literal, Prefixed"),
    (plan(resource(kafka(acl_host=None))), "kafka_acl.a.acl_host", "found nothing"),
    (plan(resource(kafka(acl_principal="shop"))), "kafka_acl.a", "no colon"),
    (plan(resource(kafka(resource_type="Cluster"))), "kafka_acl.a", "only valid name"),
    (plan(resource({**CLOUD, "operation": "Write"}, "confluent_kafka_acl")),
     "confluent_kafka_acl.a.operation", "found 'Write'"),
    (plan(resource(CLOUD, "confluent_kafka_acl"), resource(OTHER_CLOUD, "confluent_kafka_acl")),
     "confluent_kafka_acl.a", "expected the ACLs of one cluster"),
    (plan(resource(ORDERS), resource(CLOUD, "confluent_kafka_acl")), "confluent_kafka_acl.a",
     "expected the ACLs of one cluster"),
    (plan(resource(CLOUD, "confluent_kafka_acl"), resource_changes=[
        change(["delete"], OTHER_CLOUD, None, "confluent_kafka_acl")
    ]), "confluent_kafka_acl.a", "expected the ACLs of one cluster"),
    (plan(configuration=CONFIGURATION), "configuration", "kafka, the provider kafka.o"),
    (two_providers("kafka.other"), "kafka_acl.b", "kafka, the provider kafka.o"),
    (plan(configuration={"root_module": {"resources": 1}}),
     "configuration.resources", "expected a list of resources, found int"),
    (plan(configuration={"root_module": {"resources": [{"type": []}]}}),
     "configuration.resources[0].type", "found list"),
    (plan(resource_changes={}), "resource_changes", "expected a list of changes"),
    (plan(resource_changes=[change(["delete"], None, None)]), "kafka_acl.a", "found nothing"),
    (plan(planned_values={"root_module": []}), "planned_values.root_module", "found list"),
    (configuration("${var.x}"), "kafka_acl.a.resource_name", "without an expression"),
    (configuration("a%{if x}"), "kafka_acl.a.resource_name", "without an expression"),
    (configuration("$${${x}"), "kafka_acl.a.resource_name", "without an expression"),
    (configuration(1), "kafka_acl.a.resource_name", "found int '1'"),
    ('{"resource": {"kafka_acl": {"a": {"for_each": []}}}}', "kafka_acl.a.for_each", "found list"),
    ('{"acl": {}, "resource": {}}', "document", "unknown key 'acl'"),
])  # fmt: skip
def test_fault_is_named_with_its_place(text: str, place: str, reason: str) -> None:
    check_fault(read, text, place, reason)


def test_provider_has_the_default_of_terraform() -> None:
    assert read(two_providers("kafka")).acls == (SHOP,)


def test_pattern_type_has_the_default_of_the_provider() -> None:
    document = {"resource": {"kafka_acl": {"a": kafka(id=..., resource_pattern_type_filter=...)}}}
    assert read(json.dumps(document)).acls == (SHOP,)


def test_written_configuration_names_each_acl_by_its_content() -> None:
    text = write([acl("User:b", "DESCRIBE_CONFIGS", topic="a.${b}", deny=True), SHOP]).text
    resources = json.loads(text)["resource"]["kafka_acl"]
    assert next(iter(resources)).startswith("deny_describe_configs_topic_a_b_")
    assert next(iter(resources.values())) == {
        "resource_name": "a.$${b}", "acl_principal": "User:b", "acl_host": "*",
        "resource_type": "Topic", "resource_pattern_type_filter": "Literal",
        "acl_operation": "DescribeConfigs", "acl_permission_type": "Deny",
    }  # fmt: skip
    assert json.loads(write([SHOP]).text)["resource"]["kafka_acl"].items() <= resources.items()
