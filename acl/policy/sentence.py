"""Read an assertion from a sentence.

    sentence   = who verb operations resources [ "from" hosts ]
    who        = principals | "everyone" | "only" principals
               | ( "nobody" | "at most" NUMBER "principals" ) [ ( "but" | "except" ) principals ]
    verb       = "may" | "can" | "may not" | "can not" | "cannot"
    resources  = "the cluster" | "any" TYPE [ "beginning with" names ]
               | [ "the" ] TYPE [ "beginning with" ] names | names
    hosts      = addresses | "any host"

The items of a list are separated by a comma, ``and`` or ``or``. TYPE is ``topic``, ``group`` and so
on, also in the plural. Names without a type are those of topics, and are not words of a language:
"bob may not WRITE anything" is an error, since it would hold if no topic is named "anything". A
quoted word is never a keyword, and a ``*`` in quotes is part of a name.

**Invariant:** a sentence has one reading, or it is an error that says where reading failed.
"""

from __future__ import annotations

from typing import Final

from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, ResourceType
from authorizerd.acl.policy.assertions import Assertion, Each, Everyone, Names, Who
from authorizerd.acl.policy.tokens import Cursor, SentenceError, Token
from authorizerd.acl.policy.words import (
    RESOURCE_WORDS,
    SUPER_USERS,
    Groups,
    WordError,
    new_at_most,
    read_count,
    read_host,
    read_names,
    read_operation,
    read_principal,
    read_principals,
)

EXAMPLES: Final = (
    "alice may READ topic orders from 10.0.0.7",
    "User:bob may not WRITE any topic",
    "nobody but User:admin may ALTER the cluster",
    "only User:a, User:b may READ topics beginning with secret-",
    "at most 3 principals can WRITE payments.*",
)

_VERBS: Final = ("may", "can")
_ANY: Final = ("any", "every", "all")
_BEGINNING: Final = ("beginning", "starting")
_BUT: Final = ("but", "except")
_CLUSTER: Final = "cluster"
_TYPES: Final = {
    spelling: resource_type
    for word, resource_type in RESOURCE_WORDS.items()
    for singular in (word, word.replace("-", "_"))
    for spelling in (singular, f"{singular}s")
}
KEYWORDS: Final = frozenset(
    (
        "and", "at", "cannot", "everyone", "from", "most", "nobody", "not", "only", "or", "the",
        "with", _CLUSTER, *_BUT, *_VERBS, *_ANY, *_BEGINNING, *_TYPES,
    )
)  # fmt: skip
"""Words that are names only in quotes."""


def read_sentence(sentence: str, groups: Groups, hosts: tuple[str, ...] = ()) -> Assertion:
    """Return the assertion of a sentence.

    Args:
        groups: the principals of each named group.
        hosts: those of the assertion if the sentence names none.

    Raises:
        SentenceError: the sentence cannot be read.
    """
    cursor = Cursor(sentence, KEYWORDS)
    who = _read_who(cursor, groups)
    is_allowed = _read_verb(cursor, who)
    operations = cursor.take_list("an operation", lambda token: token)
    for token in operations:  # a typo here explains more than an error further on
        cursor.read(token, lambda each: read_operation(_plain(each)))
    resource_type, names = _read_resources(cursor)
    codes = [
        code
        for token in operations
        for code in cursor.read(token, lambda each: read_operation(each.text, resource_type))
    ]
    if cursor.skip("from"):
        hosts = _read_hosts(cursor)
        wanted = "the end of the sentence"
    else:
        wanted = "'from' or the end of the sentence"
    if cursor.peek() is not None:
        raise cursor.unexpected(wanted, ("from",))
    return Assertion(
        who=who,
        is_allowed=is_allowed,
        operations=tuple(dict.fromkeys(codes)),
        resource_type=resource_type,
        names=names,
        hosts=hosts,
    )


def _read_who(cursor: Cursor, groups: Groups) -> Who:
    if cursor.skip("everyone"):
        return Everyone()
    if cursor.skip("nobody"):
        return new_at_most(0, _read_besides(cursor, groups))
    if cursor.skip("only"):
        return new_at_most(0, _read_principals(cursor, groups))
    if cursor.skip("at"):
        cursor.expect("most")
        count = cursor.read(cursor.take("a number"), lambda each: read_count(_plain(each)))
        cursor.expect("principals", "principal")
        return new_at_most(count, _read_besides(cursor, groups))
    first = cursor.peek()
    principals = _read_principals(cursor, groups)
    if SUPER_USERS in principals and first is not None:
        reason = f"expected {SUPER_USERS} only after 'but' or 'only'"
        raise SentenceError(reason, first.start, first.end)
    return Each(principals)


def _read_besides(cursor: Cursor, groups: Groups) -> tuple[str, ...]:
    return _read_principals(cursor, groups) if cursor.skip(*_BUT) else ()


def _read_principals(cursor: Cursor, groups: Groups) -> tuple[str, ...]:
    def read(token: Token) -> tuple[str, ...]:
        text = _plain(token)
        _check_whole(token)
        return (read_principal(text),) if token.is_quoted else read_principals(text, groups)

    listed = cursor.take_list("a principal", read)
    return tuple(dict.fromkeys(principal for some in listed for principal in some))


def _check_whole(token: Token) -> None:
    """Reject what may be a part of a distinguished name, which a comma has cut."""
    if not token.is_quoted and ":" not in token.text and "=" in token.text:
        raise WordError(
            f"{token.text!r} may be a part of a distinguished name: put the whole principal into"
            " quotes, because a comma separates principals"
        )


def _read_verb(cursor: Cursor, who: Who) -> bool:
    """Return True for ``may``, False for ``may not``."""
    token = cursor.peek()
    if cursor.skip("cannot"):
        is_allowed = False
    else:
        cursor.expect(*_VERBS)
        is_allowed = not cursor.skip("not")
    if token is not None and not is_allowed and not isinstance(who, Each):
        reason = "expected 'may': to assert that no principal may, write 'nobody may'"
        raise SentenceError(reason, token.start, token.end)
    return is_allowed


def _read_resources(cursor: Cursor) -> tuple[ResourceType, tuple[Names, ...]]:
    if cursor.skip(*_ANY):
        resource_type = _read_type(cursor)
        prefixes = _read_prefixes(cursor)
        return resource_type, prefixes or (Names("", is_prefix=True),)
    is_definite = cursor.skip("the") is not None
    if cursor.skip(_CLUSTER):
        return ResourceType.CLUSTER, (Names(CLUSTER_NAME),)
    token = cursor.peek()
    is_type = token is not None and not token.is_quoted and token.text in _TYPES
    if is_definite or is_type:
        resource_type = _read_type(cursor)
        return resource_type, _read_prefixes(cursor) or _read_names(cursor, resource_type)
    is_word = token is not None and token.text.isalpha() and token.text not in KEYWORDS
    if token is not None and is_word and not token.is_quoted:
        raise _unknown_type(cursor, f", such as 'topic {token.text}'")
    return ResourceType.TOPIC, _read_names(cursor, ResourceType.TOPIC)


def _read_type(cursor: Cursor) -> ResourceType:
    word = cursor.skip(*_TYPES)
    if word is None:
        raise _unknown_type(cursor)
    return _TYPES[word]


def _unknown_type(cursor: Cursor, example: str = "") -> SentenceError:
    known = (*RESOURCE_WORDS, _CLUSTER)
    return cursor.unexpected(f"a resource type ({', '.join(known)}){example}", known)


def _read_names(cursor: Cursor, resource_type: ResourceType) -> tuple[Names, ...]:
    def read(token: Token) -> Names:
        if resource_type is ResourceType.USER:
            _check_whole(token)
        if not token.is_quoted:
            return read_names(token.text)
        return _literal(token, is_prefix=token.has_star)

    return tuple(dict.fromkeys(cursor.take_list("a name", read)))


def _read_prefixes(cursor: Cursor) -> tuple[Names, ...]:
    """Return the prefixes after ``beginning with``, or nothing if this is not next."""
    if not cursor.skip(*_BEGINNING):
        return ()
    cursor.expect("with")

    def read(token: Token) -> Names:
        if token.has_star or (not token.is_quoted and WILDCARD in token.text):
            raise WordError(f"expected the beginning of names without '*', found {token.text!r}")
        return _literal(token, is_prefix=True)

    return tuple(dict.fromkeys(cursor.take_list("the beginning of names", read)))


def _literal(token: Token, *, is_prefix: bool) -> Names:
    if not token.text and not is_prefix:
        raise WordError("expected a name, found an empty text")
    return Names(token.text, is_prefix)


def _read_hosts(cursor: Cursor) -> tuple[str, ...]:
    if cursor.skip("any"):
        cursor.expect("host")
        return ()
    hosts = cursor.take_list("an IP address", lambda token: read_host(_plain(token)))
    return tuple(dict.fromkeys(hosts))


def _plain(token: Token) -> str:
    if token.has_star:
        raise WordError(f"expected no '*' after {token.text!r}: only names have patterns")
    return token.text
