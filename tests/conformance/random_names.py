"""Random names, certificates and mapping rules, to compare our answers with Java's.

**Invariant:** a seed and a number give the same case on any machine. Cases are those of the Java
class ``PrincipalOracle``: ``{"name": hex}``, ``{"certificate": hex}``, ``{"rules", "names"}``.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final

from tests.support.der import element

Case = dict[str, Any]

_KNOWN: Final = (
    "550403", "550406", "550407", "550408", "550409", "55040a", "55040b",
    "0992268993f22c640101", "0992268993f22c640119",
)  # fmt: skip
_UNKNOWN: Final = (
    "2a864886f70d010901", "550404", "550405", "55040c", "55042e", "2a0304", "88378080808001",
    "00", "27", "28", "7f", "8837", "81ffffffffffffffff7f", "2b06010401",
)  # fmt: skip
_INVALID_OIDS: Final = ("", "80", "5580", "558003", "55ff")
_UTF8_STRING: Final = 0x0C
_BMP_STRING: Final = 0x1E
_STRING_TAGS: Final = (0x0C, 0x0C, 0x0C, 0x13, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)
_OTHER_TAGS: Final = (0x01, 0x02, 0x03, 0x04, 0x05, 0x0A, 0x12, 0x17, 0x1A, 0x2C, 0x30, 0x33, 0x80)
_CHARACTERS: Final = (
    *'abzAZ019 ,=+<>#;"\\/.-_@$*&()',
    *" \r\n\t\0\x01\x1f\x7f",
    *"éßıſİΣςÅ\u0301\x85\xa0\u2028\ufeff\ufffd日\U0001f600\U00010400\U0010ffff",
)
_BYTES: Final = (
    *range(0x20, 0x7F), 0xF5, 0xF8, 0xFF, 0x90, 0x8F,
    *([0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4] * 6),
)  # fmt: skip


def random_names(seed: int, count: int, *, of_any_java: bool) -> Iterator[Case]:
    """Yield encoded names; some are damaged, and every fourth is in a certificate.

    ``of_any_java`` leaves out strings that Java reads differently since April 2026.
    """
    for number in range(count):
        maker = _NameMaker(Random(f"names/{seed}/{number}"), of_any_java)
        if number % 4 == 0:
            yield {"certificate": certificate(maker.name()).hex()}
        else:
            yield maker.maybe_damaged_name()


def certificate(name: bytes) -> bytes:
    """Return a certificate with this subject, and a meaningless key and signature."""
    algorithm = element(0x30, bytes.fromhex("06082a8648ce3d040302"))
    curve = bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107")
    point = bytes.fromhex(
        "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
    )
    key = element(0x30, element(0x30, curve) + element(0x03, b"\0" + point))
    issuer = element(0x30, bytes.fromhex("310c300a06035504030c036f6e65"))
    validity = element(0x30, element(0x17, b"200101000000Z") + element(0x17, b"400101000000Z"))
    version, number = element(0xA0, element(0x02, b"\2")), element(0x02, b"\1")
    signed = element(0x30, version + number + algorithm + issuer + validity + name + key)
    signature = element(0x03, b"\0" + bytes.fromhex("3006020101020101"))
    return element(0x30, signed + algorithm + signature)


class _NameMaker:
    def __init__(self, random: Random, of_any_java: bool) -> None:
        self._random = random
        self._of_any_java = of_any_java

    def name(self) -> bytes:
        parts = (self._part() for _ in range(self._random.choice((0, 1, 1, 2, 3, 4, 6))))
        return element(0x30, b"".join(parts))

    def maybe_damaged_name(self) -> Case:
        name = self.name()
        is_damaged = self._random.random() < 0.1
        return {"name": (self._damage(name) if is_damaged else name).hex(), "damaged": is_damaged}

    def _part(self) -> bytes:
        count = self._random.choice((1,) * 8 + (0, 2, 2, 3))
        return element(0x31, b"".join(self._attribute() for _ in range(count)))

    def _attribute(self) -> bytes:
        choices = (_KNOWN, _UNKNOWN, _INVALID_OIDS)
        (oids,) = self._random.choices(choices, (80, 20, 1))
        identifier = element(0x06, bytes.fromhex(self._random.choice(oids)))
        return element(0x30, identifier + self._value())

    def _value(self) -> bytes:
        if self._random.random() < 0.1:
            size = self._random.choice((0, 1, 2, 5))
            return element(self._random.choice(_OTHER_TAGS), self._random.randbytes(size))
        tag = self._random.choice(_STRING_TAGS)
        if self._of_any_java and tag == _BMP_STRING:
            tag = _UTF8_STRING
        return element(tag, self._string(tag, self._random.choice((0, 1, 1, 2, 3, 5, 8, 12, 130))))

    def _string(self, tag: int, size: int) -> bytes:
        is_ascii = self._of_any_java and tag != _UTF8_STRING
        if self._random.random() < 0.2 and tag != _BMP_STRING and not is_ascii:
            return bytes(self._random.choices(_BYTES, k=size))
        is_plain = self._random.random() < 0.3
        characters = "abcXYZ 019.-" if is_plain else _CHARACTERS
        text = "".join(self._random.choices(characters, k=size))
        if is_ascii:
            return text.encode("ascii", "ignore")
        encoding = {_BMP_STRING: "utf-16-be", 0x1C: "utf-32-be", 0x14: "latin-1"}.get(tag, "utf-8")
        return text.encode(encoding, "replace")

    def _damage(self, name: bytes) -> bytes:
        damaged, place = bytearray(name), self._random.randrange(len(name))
        if self._random.random() < 0.5:
            del damaged[place:]
        elif self._of_any_java or self._random.random() < 0.3:
            damaged += self._random.randbytes(1)
        else:
            damaged[place] = self._random.randrange(256)
        return bytes(damaged)


_LETTERS: Final = (*"abcAB1 ", ",", "=", "CN=", "OU=", "é", "ß", "É", "\n", "\r", "\U0001f600")
_ESCAPES: Final = (
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S") * 2,
    *(r"\p{Alpha}", r"\p{Lower}", r"\P{Upper}", r"\p{Punct}", r"\p{L}", r"\pL", r"\p{Lu}") * 2,
    *(r"\P{Ll}", r"\P{Alnum}", r"\p{Alnum}", r"\p{ASCII}", r"\p{Zs}", r"\pN", r"\P{P}") * 2,
    *(r"\x61", r"\u0062", r"\x{63}", r"\t", r"\n", r"\,", r"\=", r"\\", r"\/") * 2,
    *(r"\Qa.b\E", r"\Q,\E", r"\Q\E", r"\x{1F600}", r"\e", r"\a", r"\xE9") * 2,
    r"\0101", r"\cJ", r"\h", r"\R", r"\uD83D\uDE00", r"\y", r"\p{IsLatin}", r"\p{Foo}", r"\G",
)  # fmt: skip
_MEMBERS: Final = (
    *("a", "b", "a-c", "A-Z", "^", "-", ",", "=", "&", "é", "\\d", "\\w", "\\]", "0-9", " ") * 2,
    *("\\p{Upper}", "\\x41", "\\-", "\\n", "\U0001f600", "\\S", "\\W", "\\P{Lu}", "X-c", "\\[") * 2,
    "[", "[ab]", "\\Q^]\\E", "[a-c&&[^b]]",
)  # fmt: skip
_QUANTIFIERS: Final = ("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{1,}", "{0}")
_ANCHORS: Final = ("^", "$", "\\A", "\\Z", "\\z", "\\b", "\\B")
_FLAGS: Final = (*("i", "s", "is", "-i", "i-s", "") * 3, "m", "d", "u", "x")
_REPLACEMENTS: Final = (
    "$0", "<$0>", "$1", "[$1]", "$1@$2", "$1$0", "User $1", "$12", "$1$5$9", "$10x$4", "x", "",
    "\\$1", "\\\\", "a\\/b", "$01", "é$1ß", "$0İΣ", "${n}",
)  # fmt: skip
_ODD_REPLACEMENTS: Final = ("$", "\\", "$a", "${}", "${1a}", "${q}", "$99999999999", "$3", "$\\{n}")
_ATTRIBUTES: Final = ("CN=Duke", "OU=ServiceUsers", "O=Org", "C=US", "L=x y", "CN=é", "DC=a\\,b")


def random_rules(seed: int, count: int) -> Iterator[Case]:
    """Yield lists of rules, with names to which they are applied."""
    for number in range(count):
        yield _RuleMaker(Random(f"rules/{seed}/{number}")).case()


class _RuleMaker:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._choose = random.choice

    def _happens(self, share: float) -> bool:
        return self._random.random() < share

    def case(self) -> Case:
        is_realistic = self._happens(0.35)
        rule = self._realistic_rule if is_realistic else self._wild_rule
        rules = [rule() for _ in range(self._choose((1, 1, 1, 2, 3)))]
        if self._happens(0.2):
            rules.append(self._choose(("DEFAULT", " DEFAULT ", "default", "", "DEFAULTx", "RULE:")))
        names = [self._name(is_realistic) for _ in range(8)]
        return {"rules": self._choose((",", ", ", " ,\t", ",\n")).join(rules), "names": names}

    def _name(self, is_realistic: bool) -> str:
        if is_realistic:
            size = self._random.randint(1, 4)
            return self._choose((",", ", ")).join(self._random.choices(_ATTRIBUTES, k=size))
        letters = self._choose((_LETTERS, "ab", "aAb,", "ab\n\r\x85", "a\n\r", "CN=a,"))
        return "".join(self._random.choices(letters, k=self._random.randint(0, 6)))

    def _realistic_rule(self) -> str:
        keys = ("CN", "OU", "O", "C", "L", "DC")
        values = ("(.*?)", "([^,]+)", "(\\w*)", "ServiceUsers", "([a-zA-Z ]*)", "(?<n>.*)", ".*")
        parts = [
            f"{self._choose(keys)}={self._choose(values)}" for _ in range(self._choose((1, 2, 3)))
        ]
        head, tail = (
            self._choose(("^", "", ".*", "^.*[Cc][Nn]=")),
            self._choose(("$", ".*$", "", ".*")),
        )
        body = self._choose((",", ", ", ",.*", ", *")).join(parts)
        pattern = f"{head}{body}{tail}"
        return f"RULE:{pattern}/{self._replacement(pattern)}/{self._choose(('', 'L', 'U'))}"

    def _replacement(self, pattern: str) -> str:
        if self._happens(0.05):
            return self._choose(_ODD_REPLACEMENTS)
        without_group = "(" not in pattern.replace("(?", "")
        return self._choose(_REPLACEMENTS[:2] if without_group else _REPLACEMENTS)

    def _wild_rule(self) -> str:
        flags = (
            self._choose(("(?s)", "(?i)", "(?is)", "(?s)", "(?i)", "(?m)"))
            if self._happens(0.2)
            else ""
        )
        pattern = flags + self._alternatives(3) + self._choose(("", "", ".*", "(.*)", "[^c]*"))
        end = self._choose(("", "L", "U", " ")) if self._happens(0.97) else "LU"
        return f"RULE:{pattern}/{self._replacement(pattern)}/{end}"

    def _alternatives(self, depth: int) -> str:
        return "|".join(self._sequence(depth) for _ in range(self._choose((1, 1, 1, 2, 3))))

    def _sequence(self, depth: int) -> str:
        return "".join(self._quantified(depth) for _ in range(self._choose((0, 1, 1, 2, 2, 3, 4))))

    def _quantified(self, depth: int) -> str:
        atom = self._atom(depth)
        if self._happens(0.4):
            atom += self._choose(_QUANTIFIERS) + self._choose((*("", "", "", "?", "?") * 4, "+"))
        return atom

    def _atom(self, depth: int) -> str:
        makers: Sequence[tuple[Callable[[int], str], int]] = (
            (lambda _: self._choose(_LETTERS[:10]), 30),
            (lambda _: self._choose(_LETTERS), 8),
            (lambda _: ".", 12),
            (lambda _: self._choose(_ESCAPES), 12),
            (lambda _: self._class(), 12),
            (lambda _: self._choose(_ANCHORS), 6),
            (lambda _: self._choose(("\\1", "\\2", "\\k<n>", "\\11")), 1),
            (self._group, 24 if depth else 0),
        )
        (maker,) = self._random.choices(
            [each for each, _ in makers], [share for _, share in makers]
        )
        return maker(depth)

    def _class(self) -> str:
        members = "".join(self._random.choices(_MEMBERS, k=self._random.randint(1, 4)))
        if self._happens(0.05):
            members += "&&" + "".join(self._random.choices(_MEMBERS, k=self._random.randint(1, 2)))
        return f"[{'^' if self._happens(0.3) else ''}{members}]"

    def _group(self, depth: int) -> str:
        body = self._alternatives(depth - 1)
        kinds = (*("(", "(", "(", "(?:", "(?:", "(?<n>", "(?i)(") * 6, "(?=", "(?!", "(?<=", "(?>")
        if self._happens(0.15):
            return f"(?{self._choose(_FLAGS)}:{body})"
        return f"{self._choose(kinds)}{body})"
