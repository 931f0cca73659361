"""Changes of dynamic configs, planned."""

from __future__ import annotations

import pytest

from config.alterations import (
    Alteration,
    AlterationError,
    AlterOperation,
    InvalidConfigError,
    check_alterations,
    plan_incremental,
    plan_replacement,
)

KEY = "max.connections"
SET, DELETE = AlterOperation.SET, AlterOperation.DELETE


def test_keys_are_set_and_taken_away() -> None:
    """What is not there to be taken away changes nothing."""
    alterations = [
        Alteration(KEY, SET, "5"),
        Alteration("mine", SET, "x"),
        Alteration("connections.max.idle.ms", DELETE, None),
        Alteration("authorizerd.log.level", DELETE, None),
    ]
    before = {"connections.max.idle.ms": "7", KEY: "3"}
    assert plan_incremental(before, alterations) == {
        KEY: "5",
        "mine": "x",
        "connections.max.idle.ms": None,
    }
    assert before == {"connections.max.idle.ms": "7", KEY: "3"}


def test_a_replacement_takes_away_what_it_does_not_name() -> None:
    """AlterConfigs says all that is to be set."""
    assert plan_replacement({KEY: "3", "mine": "x"}, {KEY: "4"}) == {KEY: "4", "mine": None}
    assert plan_replacement({}, {}) == {}


BAD = [
    (Alteration(KEY, SET, "many"), "Invalid value many for configuration max.connections: many is"),
    (Alteration(KEY, SET, "0"), "Invalid value 0 for configuration max.connections: 0 is not an"),
    (Alteration("node.id", SET, "3"), "Cannot update these configs dynamically: [node.id]"),
    (Alteration(KEY, 9, "3"), "Unknown operations type 9"),
    (Alteration("super.users", SET, "bob"), "Invalid value bob for configuration super.users: bob"),
]


@pytest.mark.parametrize(("alteration", "text"), BAD)
def test_what_may_not_be_set_is_refused(alteration: Alteration, text: str) -> None:
    """With Kafka's texts, as far as they go; the good ones beside it are not set either."""
    with pytest.raises(AlterationError) as refusal:
        plan_incremental({}, [Alteration("connections.max.idle.ms", SET, "5"), alteration])
    assert str(refusal.value).startswith(text)
    if alteration.operation == SET:
        with pytest.raises(AlterationError):
            plan_replacement({}, {alteration.name: alteration.value or ""})


@pytest.mark.parametrize("operation", [AlterOperation.APPEND, AlterOperation.SUBTRACT])
def test_what_is_no_list_is_not_appended_to(operation: AlterOperation) -> None:
    """No key that may change is one."""
    with pytest.raises(InvalidConfigError) as refusal:
        plan_incremental({}, [Alteration(KEY, operation, "5")])
    what = operation.name.lower()
    assert str(refusal.value) == f"Config value {what} is not allowed for config key: {KEY}"


def test_a_request_that_contradicts_itself_is_refused() -> None:
    """A key twice, or no value to be set."""
    with pytest.raises(AlterationError, match=r"^Error due to duplicate config keys$"):
        check_alterations([Alteration(KEY, SET, "1"), Alteration(KEY, DELETE, None)])
    with pytest.raises(AlterationError, match=rf"^Null value not supported for : {KEY},mine$"):
        check_alterations([Alteration(KEY, SET, None), Alteration("mine", SET, None)])
    check_alterations([Alteration(KEY, DELETE, None)])
