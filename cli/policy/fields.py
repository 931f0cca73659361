"""Read an assertion from the fields of a mapping.

    principal: alice          # or: everyone, nobody, nobody_but, only, at_most (with but)
    may: READ                 # or: may_not
    topic: payments.*         # or: group, transactional_id, …, cluster
    host: 10.0.0.7            # default: every host

A field takes a string or a list. The words in fields mean the same as in sentences.

**Invariant:** each field belongs to one slot (who, verb, what, where), and an assertion has exactly
one field of each slot; only the host may be missing. Defaults fill a slot that a test leaves empty.
Anything else in a field is a ``YamlError``, which every function here may raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from authorizerd.acl.model import CLUSTER_NAME, ResourceType
from authorizerd.config.yaml_fault import Fault
from authorizerd.config.yaml_tree import (
    Fields,
    Items,
    Node,
    Text,
    YamlError,
    describe,
)
from authorizerd.management.policy import words

T = TypeVar("T")

WHO: Final = (
    "principal", "principals", "everyone", "nobody", "nobody_but", "only", "at_most",
)  # fmt: skip
BUT: Final = "but"
VERBS: Final = ("may", "may_not")
_TYPES: Final[Mapping[str, ResourceType]] = {
    f"{word.replace('-', '_')}{plural}": resource_type
    for word, resource_type in words.RESOURCE_WORDS.items()
    for plural in ("", "s")
}
WHAT: Final = (*_TYPES, "cluster")
WHERE: Final = ("host", "hosts")
KEYS: Final = (*WHO, BUT, *VERBS, *WHAT, *WHERE)
_ANY_HOST: Final = "any"


def fail(node: Node, reason: str) -> YamlError:
    """Return the error for a ``node`` that is not what was expected."""
    return YamlError(Fault(node.line, node.column, reason))


def check_keys(fields: Fields, known: Iterable[str]) -> None:
    known = tuple(known)
    for name, (key, _) in fields.pairs.items():
        if name not in known:
            meant = words.did_you_mean(name, known)
            expected = f"expected one of {', '.join(known)}"
            if " " in name:
                expected = "quote a sentence that contains ': '"
            raise fail(key, f"unknown key {name!r}{meant}: {expected}")


def read_fields(fields: Fields, defaults: Fields | None, groups: words.Groups) -> words.Assertion:
    """Return the assertion of the fields. Keys of other slots are ignored."""
    who = _find_slot(fields, defaults, WHO, "who")
    verb = _find_slot(fields, None, VERBS, "what they may do")
    what = _find_slot(fields, defaults, WHAT, "the resource")
    assert who is not None
    assert verb is not None
    assert what is not None
    but = fields.pairs.get(BUT)
    subject = _read_who(who, but, groups)
    is_allowed = verb[0].value == "may"
    if not is_allowed and not isinstance(subject, words.Each):
        raise fail(verb[0], "expected 'may': to assert that no principal may, write 'nobody: true'")
    resource_type, names = _read_what(what)

    def read(text: str) -> tuple[int, ...]:
        return words.read_operation(text, resource_type)

    operations = read_words(verb[1], "an operation", read)
    return words.Assertion(
        who=subject,
        is_allowed=is_allowed,
        operations=tuple(dict.fromkeys(code for codes in operations for code in codes)),
        resource_type=resource_type,
        names=names,
        hosts=read_hosts(fields, defaults),
    )


_Pair = tuple[Text, Node]


def _find_slot(
    fields: Fields, defaults: Fields | None, keys: tuple[str, ...], meaning: str
) -> _Pair | None:
    """Return the key and the value of a slot; None for an empty one that may be empty."""
    for part in filter(None, (fields, defaults)):
        found = [part.pairs[key] for key in keys if key in part.pairs]
        if len(found) > 1:
            first, second = found[0][0], found[1][0]
            reason = f"expected one key for {meaning}, found {first.value!r} and {second.value!r}"
            raise fail(second, reason)
        if found:
            return found[0]
    if keys is WHERE:
        return None
    raise fail(fields, f"missing {meaning}: expected one of {', '.join(keys)}")


def _read_who(who: _Pair, but: _Pair | None, groups: words.Groups) -> words.Who:
    key, node = who
    if but is not None and key.value != "at_most":
        raise fail(but[0], f"expected 'but' only with 'at_most', found it with {key.value!r}")

    def read_all(pair: _Pair) -> tuple[str, ...]:
        listed = read_words(
            pair[1], "a principal", lambda text: words.read_principals(text, groups)
        )
        return tuple(dict.fromkeys(principal for principals in listed for principal in principals))

    if key.value in ("everyone", "nobody"):
        _check_true(node)
        return words.Everyone() if key.value == "everyone" else words.AtMost(0)
    if key.value in ("nobody_but", "only"):
        return words.new_at_most(0, read_all(who))
    if key.value == "at_most":
        count = _read_word(_number(node), words.read_count)
        return words.new_at_most(count, () if but is None else read_all(but))
    principals = read_all(who)
    if words.SUPER_USERS in principals:
        raise fail(node, f"expected {words.SUPER_USERS} only in nobody_but, only and but")
    return words.Each(principals)


def _read_what(what: _Pair) -> tuple[ResourceType, tuple[words.Names, ...]]:
    key, node = what
    resource_type = _TYPES.get(key.value)
    if resource_type is None:
        _check_true(node)
        return ResourceType.CLUSTER, (words.Names(CLUSTER_NAME),)
    names = [_read_names(each) for each in _iterate(node, "a name")]
    return resource_type, tuple(dict.fromkeys(names))


def _read_names(node: Node) -> words.Names:
    if not isinstance(node, Fields):
        return _read_word(expect_text(node, "a name"), words.read_names)
    check_keys(node, ("literal", "prefix"))
    pair = _find_slot(node, None, ("literal", "prefix"), "the name")
    assert pair is not None
    key, value = pair
    text = expect_text(value, "a name").value
    if not text and key.value == "literal":
        raise fail(value, "expected a name, found an empty text")
    return words.Names(text, is_prefix=key.value == "prefix")


def read_hosts(fields: Fields, defaults: Fields | None) -> tuple[str, ...]:
    """Return the hosts of the fields, or else of the defaults; none for every host."""
    pair = _find_slot(fields, defaults, WHERE, "the hosts")
    if pair is None:
        return ()
    node = pair[1]
    if isinstance(node, Text) and node.kind is None and node.value == _ANY_HOST:
        return ()
    return tuple(dict.fromkeys(read_words(node, "an IP address, or any", words.read_host)))


def _check_true(node: Node) -> None:
    if not (isinstance(node, Text) and node.kind == "a boolean" and node.value == "true"):
        raise fail(node, f"expected true, found {describe(node)}")


def _number(node: Node) -> Text:
    if not (isinstance(node, Text) and node.kind == "a number"):
        raise fail(node, f"expected a number, found {describe(node)}")
    return node


def expect_text(node: Node, wanted: str) -> Text:
    if isinstance(node, Text) and node.kind is None:
        return node
    raise fail(node, f"expected {wanted}, found {describe(node)}")


def _iterate(node: Node, wanted: str) -> Iterator[Node]:
    """Yield the items of a list, or the value itself."""
    if not isinstance(node, Items):
        yield node
        return
    if not node.nodes:
        raise fail(node, f"expected {wanted} or a list, found an empty list")
    seen: dict[str, int] = {}
    for each in node.nodes:
        if isinstance(each, Text):
            if each.value in seen:
                raise fail(each, f"{each.value!r} is already in line {seen[each.value]}")
            seen[each.value] = each.line
        yield each


def read_words(node: Node, wanted: str, read: Callable[[str], T]) -> list[T]:
    """Return the results of ``read`` for a string, or for each string of a list."""
    return [_read_word(expect_text(each, wanted), read) for each in _iterate(node, wanted)]


def _read_word(text: Text, read: Callable[[str], T]) -> T:
    try:
        return read(text.value)
    except words.WordError as error:
        raise fail(text, str(error)) from error
