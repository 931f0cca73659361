"""Plans for changes of dynamic configs."""

from collections.abc import Mapping, Sequence

import pytest

from authorizerd.config.alterations import (
    Alteration,
    AlterationError,
    AlterOperation,
    Changes,
    InvalidConfigError,
    check_alterations,
    plan_changes,
    want_incremental,
    want_replacement,
)
from authorizerd.config.keys import KEYS

KEY = "max.connections"
SET, DELETE = AlterOperation.SET, AlterOperation.DELETE
PLUGGED = frozenset({"mine"})


def plan_incremental(before: Mapping[str, str], alterations: Sequence[Alteration]) -> Changes:
    return plan_changes(before, want_incremental(alterations, PLUGGED))


def plan_replacement(before: Mapping[str, str], configs: Mapping[str, str]) -> Changes:
    alterations = [Alteration(name, SET, value) for name, value in configs.items()]
    return plan_changes(before, want_replacement(alterations, PLUGGED))


def test_keys_are_set_and_removed() -> None:
    """Removing a key that is not set changes nothing."""
    alterations = [
        Alteration(KEY, SET, "500"),
        Alteration("mine", SET, "x"),
        Alteration("connections.max.idle.ms", DELETE, None),
        Alteration("authorizerd.log.level", DELETE, None),
    ]
    before = {"connections.max.idle.ms": "7", KEY: "3"}
    assert plan_incremental(before, alterations) == {
        KEY: "500",
        "mine": "x",
        "connections.max.idle.ms": None,
    }
    assert before == {"connections.max.idle.ms": "7", KEY: "3"}


def test_replacement_removes_unnamed_keys() -> None:
    assert plan_replacement({KEY: "3", "mine": "x"}, {KEY: "400"}) == {KEY: "400", "mine": None}
    assert plan_replacement({}, {}) == {}


BAD = [
    (
        Alteration(KEY, SET, "many"),
        "Invalid value many for configuration max.connections: expected",
    ),
    (Alteration(KEY, SET, "0"), "Invalid value 0 for configuration max.connections: expected an"),
    (Alteration("node.id", SET, "3"), "Cannot update these configs dynamically: [node.id]"),
    (Alteration("yours", SET, "3"), "Unknown config name: yours. It is not a key of the daemon"),
    (Alteration("authorizerd.mine", SET, "3"), "Unknown config name: authorizerd.mine. It"),
    (Alteration(KEY, 9, "3"), "Unknown operations type 9"),
    (
        Alteration("super.users", SET, "bob"),
        "Invalid value bob for configuration super.users: invalid",
    ),
]


@pytest.mark.parametrize(("alteration", "text"), BAD)
def test_invalid_alteration_is_rejected_with_kafkas_text(alteration: Alteration, text: str) -> None:
    """Valid alterations of the same request are not made either."""
    with pytest.raises(AlterationError) as refusal:
        plan_incremental({}, [Alteration("connections.max.idle.ms", SET, "50000"), alteration])
    assert str(refusal.value).startswith(text)
    if alteration.operation == SET:
        with pytest.raises(AlterationError):
            plan_replacement({}, {alteration.name: alteration.value or ""})


@pytest.mark.parametrize("operation", [AlterOperation.APPEND, AlterOperation.SUBTRACT])
def test_append_and_subtract_are_rejected(operation: AlterOperation) -> None:
    """No reloadable key is a list."""
    with pytest.raises(InvalidConfigError) as refusal:
        plan_incremental({}, [Alteration(KEY, operation, "5")])
    what = operation.name.lower()
    assert str(refusal.value) == f"Config value {what} is not allowed for config key: {KEY}"
    unknown = [Alteration(KEY, operation, "5"), Alteration("node.id", 9, "5")]
    with pytest.raises(AlterationError, match=r"^Unknown operations type 9$"):  # as Kafka does
        plan_incremental({}, unknown)


def check(*alterations: Alteration) -> None:
    check_alterations(alterations)


def test_contradictory_request_is_rejected() -> None:
    with pytest.raises(AlterationError, match=r"^Error due to duplicate config keys$"):
        check(Alteration(KEY, SET, "1"), Alteration(KEY, DELETE, None))
    with pytest.raises(AlterationError, match=rf"^Null value not supported for : {KEY}, mine$"):
        check(Alteration(KEY, SET, None), Alteration("mine", SET, None))
    check(Alteration(KEY, DELETE, None))


LIMITS = [(key.name, key.wire_minimum) for key in KEYS if key.wire_minimum is not None]


@pytest.mark.parametrize(("name", "minimum"), LIMITS)
def test_client_cannot_set_a_limit_that_locks_everyone_out(name: str, minimum: int) -> None:
    """The file can: its owner can undo it without logging in."""
    assert plan_incremental({}, [Alteration(name, SET, str(minimum))]) == {name: str(minimum)}
    with pytest.raises(AlterationError, match=f"{minimum - 1} is below {minimum}, the minimum"):
        plan_incremental({}, [Alteration(name, SET, str(minimum - 1))])


def test_limits_that_could_lock_everyone_out_have_a_minimum() -> None:
    assert {name for name, _ in LIMITS} == {
        "max.connections",
        "connections.max.idle.ms",
        "authorizerd.http.header.timeout.ms",
        "authorizerd.login.timeout.ms",
        "max.connections.per.ip",
        "max.connection.creation.rate",
    }


def test_fixed_key_cannot_be_removed() -> None:
    """Another writer may have put it into the log. Unknown keys can be removed."""
    before = {"node.id": "2", "theirs": "x"}
    with pytest.raises(AlterationError, match=r"Cannot update these configs .*: \[node\.id\]"):
        plan_replacement(before, {})
    assert plan_incremental(before, [Alteration("theirs", DELETE, None)]) == {"theirs": None}


def test_error_names_only_some_of_many_keys() -> None:
    alterations = [Alteration(f"key-{number}", SET, "x") for number in range(10_000)]
    check_alterations(alterations)
    with pytest.raises(InvalidConfigError) as refusal:
        want_incremental(alterations, PLUGGED)
    assert len(str(refusal.value)) < 2000
