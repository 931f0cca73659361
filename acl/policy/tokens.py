"""The words of a sentence, and a cursor that reads them from left to right.

**Invariant:** every error has the place of a word, so that the reader sees where reading failed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from authorizerd.acl.policy.words import WordError, did_you_mean

T = TypeVar("T")

_TOKEN: Final = re.compile(
    r"""\s+|(?P<comma>,)|(?P<quoted>"(?:[^"]|"")*"|'(?:[^']|'')*')(?P<star>\*?)(?=[\s,]|\Z)"""
    r"""|(?P<word>[^\s,"'][^\s,]*)"""
)
_COMMA: Final = ","
_SEPARATORS: Final = ("and", "or")


class SentenceError(Exception):
    """A sentence that cannot be read; ``start`` and ``end`` are the place of the word, from 0."""

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
    """Return the tokens of a sentence. In quotes, a doubled quote stands for one.

    Raises:
        SentenceError: a quoted text has no end.
    """
    tokens: list[Token] = []
    place = 0
    while place < len(sentence):
        found = _TOKEN.match(sentence, place)
        if found is None:
            reason = "expected a closing quote, and then a space, a comma or the end"
            raise SentenceError(reason, place, len(sentence))
        place = found.end()
        quoted = found["quoted"]
        if quoted:
            text = quoted[1:-1].replace(quoted[0] * 2, quoted[0])
            tokens.append(Token(text, *found.span(), True, bool(found["star"])))
        elif found["word"] or found["comma"]:
            tokens.append(Token(found[0], *found.span()))
    return tokens


class Cursor:
    """Reads the tokens of one sentence, one ahead. ``keywords`` must be quoted to be names."""

    def __init__(self, sentence: str, keywords: frozenset[str]) -> None:
        self._tokens = split(sentence)
        self._end = len(sentence)
        self._keywords = keywords
        self._place = 0

    def peek(self) -> Token | None:
        """Return the next token, or None at the end."""
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
        """Take tokens that are separated by a comma, ``and`` or ``or``, and read each of them.

        Raises:
            SentenceError: ``read`` raised a ``WordError``, or there is no such token.
        """
        items = [self.read(self.take(wanted), read)]
        while separator := self.skip(_COMMA, *_SEPARATORS):
            if separator == _COMMA:
                self.skip(*_SEPARATORS)
            items.append(self.read(self.take(wanted), read))
        return items

    def read(self, token: Token, read: Callable[[Token], T]) -> T:
        """Return what ``read`` makes of a token.

        Raises:
            SentenceError: ``read`` raised a ``WordError``.
        """
        try:
            return read(token)
        except WordError as error:
            raise SentenceError(str(error), token.start, token.end) from error

    def unexpected(self, wanted: str, known: tuple[str, ...] = ()) -> SentenceError:
        """Return the error that the next token is not what was expected."""
        token = self.peek()
        if token is None:
            reason = f"expected {wanted}, found the end of the sentence"
            return SentenceError(reason, self._end, self._end + 1)
        reason = f"expected {wanted}, found {token.text!r}{did_you_mean(token.text, known)}"
        return SentenceError(reason, token.start, token.end)
