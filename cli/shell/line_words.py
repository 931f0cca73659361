"""Split a line that was typed into words, with quotes and backslashes.

Source: JLine 3 DefaultParser, which Kafka's metadata shell uses with its defaults.
"""

from __future__ import annotations

_QUOTES = "'\""
_ESCAPE = "\\"


def split_line(line: str) -> list[str]:
    """Return the words of a line.

    A quote at the start of a word is dropped with its partner. Elsewhere, quotes are kept. Both
    keep blanks together. A backslash is dropped, and the character after it stands for itself.
    A quote without a partner reaches to the end of the line. Empty words are left out.
    """
    words: list[str] = []
    word: list[str] = []
    quote = ""
    is_dropped = is_escaped = False
    for each in line:
        if is_escaped:
            is_escaped = False
            word.append(each)
        elif each == _ESCAPE:
            is_escaped = True
        elif not quote and each in _QUOTES:
            quote, is_dropped = each, not word
            word += "" if is_dropped else each
        elif each == quote:
            quote = ""
            word += "" if is_dropped else each
        elif each.isspace() and not quote:
            _end_word(words, word)
        else:
            word.append(each)
    _end_word(words, word)
    return words


def _end_word(words: list[str], word: list[str]) -> None:
    """Add a word, unless it is empty, and begin the next."""
    if word:
        words.append("".join(word))
        word.clear()
