"""Read an assertion from a sentence.

    sentence   = who verb operations resources [ "from" hosts ]
    who        = principals | "everyone" | "only" principals
               | ( "nobody" | "at most" NUMBER "principals" ) [ ( "but" | "except" ) principals ]
    verb       = "may" | "can" | "may not" | "can not" | "cannot"
    resources  = "the cluster" | "any" TYPE [ "beginning with" names ]
               | [ "the" ] TYPE [ "beginning with" ] names | names
    hosts      = addresses | "any host"

The items of a list are separated by a comma, ``and`` or ``or``. TYPE is ``topic``, ``group`` and so
on, also in the plural. Names without a type are those of topics, and must not be words of English:
"bob may not WRITE anything" is an error, since it would hold if no topic is named "anything". A
quoted word is never a keyword, and a ``*`` in quotes is part of a name.

**Invariant:** a sentence has one interpretation, or it is an error with the place of a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from authorizerd.acl.model import CLUSTER_NAME, WILDCARD, ResourceType
from authorizerd.management.policy.words import (
    RESOURCE_WORDS,
    SUPER_USERS,
    Assertion,
    Each,
    Everyone,
    Groups,
    Names,
    Who,
    WordError,
    did_you_mean,
    new_at_most,
    read_count,
    read_host,
    read_names,
    read_operation,
    read_principal,
    read_principals,
)

T = TypeVar("T")

_TOKEN: Final = re.compile(
    r"""\s+|(?P<comma>,)|(?P<quoted>"(?:[^"]|"")*"|'(?:[^']|'')*')(?P<star>\*?)(?=[\s,]|\Z)"""
    r"""|(?P<word>[^\s,"'][^\s,]*)"""
)
_COMMA: Final = ","
_SEPARATORS: Final = ("and", "or")


class SentenceError(Exception):
    """A sentence that cannot be read; ``start`` and ``end`` give the place of the word, from 0."""

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason, start, end)
        self.reason = reason
        self.start = start
        self.end = end


class Token(NamedTuple):
    """A word, a comma, or a quoted text without its quotes; ``has_star``: ``*`` follows them."""

    text: str
    start: int
    end: int
    is_quoted: bool = False
    has_star: bool = False


def split(sentence: str) -> list[Token]:
    """Return the tokens of a sentence. In quotes, a doubled quote stands for one."""
    tokens: list[Token] = []
    position = 0
    while position < len(sentence):
        found = _TOKEN.match(sentence, position)
        if found is None:
            reason = "expected a closing quote, and then a space, a comma or the end"
            raise SentenceError(reason, position, len(sentence))
        position = found.end()
        quoted = found["quoted"]
        if quoted:
            text = quoted[1:-1].replace(quoted[0] * 2, quoted[0])
            tokens.append(Token(text, *found.span(), True, bool(found["star"])))
        elif found["word"] or found["comma"]:
            tokens.append(Token(found[0], *found.span()))
    return tokens


class Cursor:
    """Read the tokens of one sentence, one ahead. ``keywords`` must be quoted to be names."""

    def __init__(self, sentence: str, keywords: frozenset[str]) -> None:
        self._tokens = split(sentence)
        self._end = len(sentence)
        self._keywords = keywords
        self._place = 0

    def peek(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def skip(self, *words: str) -> str | None:
        """Take the next token and return its text if it is one of ``words``, outside quotes."""
        token = self.peek()
        if token is None or token.is_quoted or token.text not in words:
            return None
        self._place += 1
        return token.text

    def expect(self, *words: str) -> None:
        """Take the next token, which must be one of ``words``."""
        if self.skip(*words) is None:
            raise self.unexpected(" or ".join(map(repr, words)), words)

    def take(self, wanted: str) -> Token:
        """Take and return the next token, which must not be a comma or a keyword."""
        token = self.peek()
        if token is None or not (
            token.is_quoted or (token.text != _COMMA and token.text not in self._keywords)
        ):
            raise self.unexpected(wanted)
        self._place += 1
        return token

    def take_list(self, wanted: str, read: Callable[[Token], T]) -> list[T]:
        """Take tokens that are separated by a comma, ``and`` or ``or``, and read each of them."""
        items = [self.read(self.take(wanted), read)]
        while separator := self.skip(_COMMA, *_SEPARATORS):
            if separator == _COMMA:
                self.skip(*_SEPARATORS)
            items.append(self.read(self.take(wanted), read))
        return items

    def read(self, token: Token, read: Callable[[Token], T]) -> T:
        """Return the result of ``read`` for a token."""
        try:
            return read(token)
        except WordError as error:
            raise SentenceError(str(error), token.start, token.end) from error

    def unexpected(self, wanted: str, known: tuple[str, ...] = ()) -> SentenceError:
        """Return the error for an unexpected next token."""
        token = self.peek()
        if token is None:
            reason = f"expected {wanted}, found the end of the sentence"
            return SentenceError(reason, self._end, self._end + 1)
        reason = f"expected {wanted}, found {token.text!r}{did_you_mean(token.text, known)}"
        return SentenceError(reason, token.start, token.end)


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
    cursor = Cursor(sentence, KEYWORDS)
    who = _read_who(cursor, groups)
    is_allowed = _read_verb(cursor, who)
    operations = cursor.take_list("an operation", lambda token: token)
    for token in operations:  # naming a typo here is more helpful than a later error
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
    return tuple(dict.fromkeys(principal for principals in listed for principal in principals))


def _check_whole(token: Token) -> None:
    """Reject a possible part of a distinguished name that a comma has cut."""
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
    """Return the prefixes after ``beginning with``, or nothing if that does not follow."""
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
