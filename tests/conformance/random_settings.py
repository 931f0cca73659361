"""Random JAAS lines and properties files, to compare our reading with Kafka's.

**Invariant:** a seed and a number give the same case on any machine. Cases are those of the Java
class ``SettingsOracle``: ``{"jaas": line}`` and ``{"properties": text}``.
"""

from collections.abc import Iterator
from random import Random
from typing import Final

from authorizerd.config.jaas import PLAIN_LOGIN_MODULE, SCRAM_LOGIN_MODULE

_BLANKS: Final = (" ",) * 6 + ("\t", "\n", "\r\n", "  ", "\0", "\x1f")
_COMMENTS: Final = ("/* c */", "/**/", "/*/ */", "// c\n", "/ c\n", "/*\n**/", "// c\r", "/* *")
_MODULES: Final = (
    *(PLAIN_LOGIN_MODULE,) * 6, SCRAM_LOGIN_MODULE, "a.B", "$x", "\xa0y", "日本", "1a",
)  # fmt: skip
_FLAGS: Final = (
    *("required",) * 9, "Required", "REQUISITE", "sufficient", "optional", "requıred", "ſufﬁcient",
    "suﬃcient", "needed", "7",
)  # fmt: skip
_NAMES: Final = (
    *("username", "password", "user_alice", "user_a-b", "user_a.b$c", "tokenauth") * 2,
    *("user_alice@example.com", "user_CN=a,O=b", "user_", "user_é", "7", "-a", "@", ".5", "user a"),
)
_VALUES: Final = (
    *("secret", "a-b.c$d_e") * 3, "c29tZQ==", "p@x", "a/b", "-1", "1.5.6", "-.", ".", "a;b", "x y",
    "é", "日", "\U0001f600", "a'b", 'a"b', "\x7f", "\x85", "a=b",
)  # fmt: skip
_PIECES: Final = (
    *("a", "b", "Z", "0", "1", "7", "8", " ", "\t", "=", ";", "/", "*", "'", '"', "\\", "\\") * 2,
    *("\\t", "\\n", "\\101", "\\7", "\\377", "\\477", "\\08", '\\"', "\\'", "\\\\", "\\u0041") * 2,
    *("\\a", "\\b", "\\f", "\\r", "\\v", "\\x", "\\é", "\\\n", "\n", "\r", "\0", "é", "\U0001f600"),
)
_SIGNS: Final = tuple("=;'\"\\/*-.@#,{}()[]!%&+:<>?^`|~_$a1 \n\r\x7f\x80\x9f\xa0ÿĀ")


def random_jaas_lines(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Yield lines; most are lines that a person might write, and some are damaged."""
    for number in range(count):
        yield {"jaas": _JaasMaker(Random(f"jaas/{seed}/{number}")).line()}


class _JaasMaker:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._choose = random.choice

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def line(self) -> str:
        tokens = [self._token(_MODULES, 0.1), self._token(_FLAGS, 0.1)]
        for _ in range(self._choose((0, 1, 1, 2, 2, 3, 4))):
            name, value = self._token(_NAMES, 0.5), self._token(_VALUES, 0.7)
            blank = self._blank if self._happens(0.2) else str
            tokens.append(f"{name}{blank()}={blank()}{value}")
        line = "".join(f"{self._blank()}{token}" for token in tokens)
        line += ";" if self._happens(0.95) else self._choose(("", ";;", f";{SCRAM_LOGIN_MODULE}"))
        if self._happens(0.25):
            return self._damage(line)
        return line + self._choose(("", "", " ", "//"))

    def _blank(self) -> str:
        blank = self._choose(_BLANKS)
        return f"{blank}{self._choose(_COMMENTS)}{blank}" if self._happens(0.06) else blank

    def _token(self, choices: tuple[str, ...], quoted: float) -> str:
        if not self._happens(quoted):
            return self._choose(choices)
        text = self._choose(choices)
        if self._happens(0.5) and choices is not _MODULES:
            text = "".join(self._random.choices(_PIECES, k=self._random.randint(0, 5)))
        elif self._happens(0.8):
            text = text.replace('"', '\\"')
        quote = self._choose('""""\'')
        return f"{quote}{text}{quote}"

    def _damage(self, line: str) -> str:
        place = self._random.randrange(len(line))
        kept = line[place + self._choose((0, 0, 1, 3)) :]
        return f"{line[:place]}{self._choose(_SIGNS)}{kept}"


_TEXTS: Final = (
    *("a", "b", "log.dirs", "listeners", "/var/lib", "1", "PLAINTEXT://:9092", "é", "\xa0") * 3,
    *(" ", " ", "\t", "\f", "=", ":", "#", "!", "\\", "\\\\", '"', "'", "\0", "\v", "\x85") * 2,
    *("\\=", "\\:", "\\ ", "\\#", "\\t", "\\n", "\\r", "\\f", "\\z", "\\é", "\\0") * 2,
    *("\\u0041", "\\u00e9", "\\u00E9", "\\u65e5", "\\ud83d\\ude00", "\\u000a", "\\u003d") * 2,
)
_ODD_TEXTS: Final = ("\\ud83d", "\\u", "\\u00", "\\u00zz", "\\uu0041", "\\ud83d\\ud83d", "\\ude00")
_ENDS: Final = (
    *("\n",) * 6, "\r\n", "\r", "\\\n", "\\\n  ", "\\\r\n\t", "\\\r", "\n\n", "\n#c\\\n", "",
)  # fmt: skip


def random_properties(seed: int, count: int) -> Iterator[dict[str, str]]:
    """Yield texts of files, of which every hundredth is longer than Java's buffer."""
    for number in range(count):
        random = Random(f"properties/{seed}/{number}")
        size = 1000 if number % 100 == 0 else random.randint(0, 6)
        yield {"properties": "".join(_property(random) for _ in range(size))}


def _property(random: Random) -> str:
    if random.random() < 0.1:
        start = random.choice(("#", "!", " #", "", " ", "\\\n#", "\f!"))
        return start + random.choice(_TEXTS) + random.choice(_ENDS)
    key, value = (
        "".join(random.choices(_TEXTS, k=random.choice((0, 1, 1, 2, 3)))) for _ in range(2)
    )
    if random.random() < 0.05:
        value += random.choice(_ODD_TEXTS)
    separator = random.choice(("=", "=", "=", " = ", ":", " ", "\t:\f", "\\\n  = ", ""))
    return f"{random.choice(('', '', ' ', chr(9)))}{key}{separator}{value}{random.choice(_ENDS)}"
