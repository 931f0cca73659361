"""Texts of operators: configurations, JAAS lines, tokens, ACLs in every format, policies, plans."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from authorizerd.acl.as_of import parse_as_of
from authorizerd.acl.errors import InvalidAsOfError
from authorizerd.acl.hosts import host_address
from authorizerd.acl.model import Acl
from authorizerd.acl.text.printable import escape_unprintable
from authorizerd.cli.policy.document import read_policy
from authorizerd.cli.policy.faults import FAULTS_SHOWN_MAX, FaultyFileError
from authorizerd.config.configuration import parse
from authorizerd.config.errors import ConfigurationError, InvalidValueError, PrincipalMappingError
from authorizerd.config.jaas import parse_log_in, parse_login_options, parse_plain_users
from authorizerd.config.keys import KEYS
from authorizerd.config.principals.mapping import PrincipalMapping
from authorizerd.config.properties import parse_properties
from authorizerd.config.tokens import new_token, parse_tokens
from authorizerd.daemon.queries.candidates import read_candidates
from authorizerd.management.formats.catalogue import DOCUMENT_SUFFIXES, FORMATS, read_acl_text
from authorizerd.management.formats.model import AclTextError
from authorizerd.management.plan.document import decode_plan, encode_plan
from authorizerd.management.plan.errors import PlanError
from authorizerd.management.policy.sentence import SentenceError, read_sentence
from authorizerd.management.review.owners import read_owners
from authorizerd.management.review.sheet import (
    ACL_COLUMNS,
    name_cells,
    name_id,
    read_sheet,
    write_sheet,
)
from authorizerd.management.zookeeper.paths import Pattern, parse_path, pattern_path
from authorizerd.management.zookeeper.znode import read_acls, write_acls
from authorizerd.protocol.decisions.acl_filters import QueryError
from tests.fuzz.target import (
    OWN_CHARACTERS_MAX,
    SECRET,
    check_message,
    in_thread,
    reader,
    rejected_with,
)
from tests.fuzz.trace import ROOT
from tests.support.acls import acl

DOCUMENTS: Final = ROOT / "docs"
_SECRET_KEYS: Final = ("password", "jaas.config")
_LINES_MAX: Final = FAULTS_SHOWN_MAX * 4
"""Of all faults: each has a sentence and a mark, and the first one has examples."""
_BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ACLS: Final = [
    acl("User:alice", "READ", topic="orders"),
    acl("User:CN=a, O=b", "WRITE", topic="o-", pattern="PREFIXED", host="10.0.0.1"),
    acl("User:*", "ALL", group="é", deny=True),
    acl("Group:g", "ALTER", cluster=True),
]
_JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="{SECRET}" user_admin="{SECRET}" user_bob=\'{SECRET}\\"\';'
)


def _blocks(language: str) -> Iterator[bytes]:
    """Yield the examples of the documentation in a language."""
    for page in sorted(DOCUMENTS.glob("*.md")):
        for found, text in _BLOCK.findall(page.read_text()):
            if found == language:
                yield text.encode()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check_properties(data: bytes) -> None:
    """A file is a configuration, or each of its faults is named."""
    text = data.decode("iso-8859-1")
    try:
        parse(text, source="server.properties")
    except ConfigurationError as error:
        for fault in error.faults:
            shown = str(fault)
            if not _is_hidden(text):  # the secret is a name or the value of another key
                shown = shown.replace(SECRET, "")
            check_message(shown, characters=OWN_CHARACTERS_MAX)


def _is_hidden(text: str) -> bool:
    """Return True if only the values of passwords and of JAAS lines contain the secret."""
    try:
        found = parse_properties(text, source="").values()
    except ConfigurationError:
        return False
    return not any(
        SECRET in each.key or (SECRET in each.value and not each.key.endswith(_SECRET_KEYS))
        for each in found
    )


def _properties() -> Iterator[bytes]:
    yield from _blocks("properties")
    yield (ROOT / "tests/data/upgrade/server-0.1.properties").read_bytes()
    yield "".join(f"{key.name}={key.default or ''}\n" for key in KEYS).encode()
    yield (
        "node.id=1\nlog.dirs=/log\nlisteners=S://127.0.0.1:9092\n"
        "listener.security.protocol.map=S:SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n"
        f"listener.name.s.plain.sasl.jaas.config={_JAAS}\n"
    ).encode()
    yield (
        f"ssl.keystore.password={SECRET}\nssl.key.password : {SECRET}\\\n  more\n"
        f"authorizerd.source.ssl.truststore.password {SECRET}\nlog.dirs=\\u0061\n"
    ).encode()


def _check_jaas(data: bytes) -> None:
    """No part of a line is quoted, because any part may be a password."""
    text = _text(data)
    for read in (
        parse_plain_users,
        parse_login_options,
        lambda text: parse_log_in(text, "PLAIN"),
        lambda text: parse_log_in(text, "SCRAM-SHA-256"),
    ):
        with rejected_with(InvalidValueError):
            found = read(text)
            is_a_name = SECRET in getattr(found, "username", "")
            assert isinstance(found, dict) or is_a_name or SECRET not in repr(found)


def _check_rules(data: bytes) -> None:
    """Rules that are accepted can be applied to any name."""
    text, _, name = _text(data).partition("\n")
    with rejected_with(ConfigurationError, characters=OWN_CHARACTERS_MAX):
        try:
            PrincipalMapping.parse(text).apply(name)
        except (InvalidValueError, PrincipalMappingError) as error:
            raise ConfigurationError("server.properties", 1, "rules", str(error)) from error


def _mapping_rules() -> Iterator[bytes]:
    yield (
        b"RULE:^CN=(.*?),(.*)$/$1/L,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1@$2/U,DEFAULT\nCN=a,O=b"
    )
    yield rb"RULE:([^\d\p{Alpha}\pL=]*)\s?(?i:a|b){1,3}?\Qx\E/\$1\\$1/" + b"\nCN=a\\,b"


def _check_tokens(data: bytes) -> None:
    text = _text(data)
    with rejected_with(ConfigurationError, characters=OWN_CHARACTERS_MAX):
        assert parse_tokens(text, source="tokens").find(data[:200]) is None
    with rejected_with(InvalidValueError):
        new_token("id", text, bytes(32))


def _check_acl_text(data: bytes) -> None:
    """A text is read, or its fault is named. In any format, it reads back but for losses."""
    text = _text(data)
    written_as = [*FORMATS.values()][len(data) % len(FORMATS)]
    written_before: set[tuple[Acl, ...]] = set()
    for suffix in ("", *DOCUMENT_SUFFIXES[:2]):
        with rejected_with(AclTextError, characters=OWN_CHARACTERS_MAX):
            found = read_acl_text(text, suffix)
            for loss in found.losses:
                check_message(str(loss), characters=OWN_CHARACTERS_MAX)
            if found.acls in written_before:
                continue
            written_before.add(found.acls)
            written = written_as.write(found.acls)
            lost = {loss.acl for loss in written.losses}
            left = [acl for acl in found.acls if acl not in lost]
            again = written_as.read(written.text).acls if left else ()
            assert (len(again), {*again}) == (len(left), {*left}), written_as.name
    with rejected_with(QueryError, characters=OWN_CHARACTERS_MAX):
        read_candidates(text)


def _acl_texts() -> Iterator[bytes]:
    for written in FORMATS.values():
        yield written.write(_ACLS).text.encode()
    yield from _blocks("yaml")
    yield (ROOT / "tools/example/desired.yaml").read_bytes()
    for name in ("julie", "gitops", "strimzi"):
        source = (ROOT / f"tests/management/formats/test_{name}.py").read_text()
        yield from (text.encode() for text in re.findall(r'"""\n(.*?)"""', source, re.DOTALL)[:3])


def _check_policy(data: bytes) -> None:
    """A policy is read, or each of its faults is reported with its place."""
    text = _text(data)
    with rejected_with(FaultyFileError, lines=_LINES_MAX, characters=OWN_CHARACTERS_MAX):
        read_policy(text, "access.yaml")
    with rejected_with(SentenceError, lines=_LINES_MAX, characters=OWN_CHARACTERS_MAX):
        read_sentence(text.partition("\n")[0], {"admins": ("User:a",)})


def _policies() -> Iterator[bytes]:
    yield from _blocks("yaml")
    yield (ROOT / "tools/example/access.yaml").read_bytes()
    yield b"nobody but $admins and bob may WRITE or READ topics beginning with orders"


def _check_plan(data: bytes) -> None:
    """Only the plan that was made is accepted, however it is laid out."""
    with rejected_with(PlanError, characters=OWN_CHARACTERS_MAX):
        assert encode_plan(decode_plan(data)) == _plan()


def _check_sheet(data: bytes) -> None:
    """Only the rows of the review are accepted, however they are laid out."""
    try:
        rows = read_sheet(data).rows
    except AclTextError as error:
        check_message(escape_unprintable(str(error)), characters=OWN_CHARACTERS_MAX)
        return
    assert {row.acl for row in rows} in (set(), set(map(name_cells, _REVIEWED)))


def _check_owners(data: bytes) -> None:
    try:
        owners = read_owners(data.decode("utf-8", "replace"))
    except AclTextError as error:
        check_message(escape_unprintable(str(error)), characters=OWN_CHARACTERS_MAX)
        return
    assert all(owner.selector.entries for owner in owners)


_REVIEWED: Final = (acl("User:a", "READ", group="=1"), acl("User:b", "READ", topic="7"))


def _sheets() -> Iterator[bytes]:
    rows: list[dict[str, str | int]] = [
        {
            **dict(zip(ACL_COLUMNS, name_cells(each), strict=True)),
            "owner": "o", "also_owned_by": "", "id": name_id(each, None),
        }
        for each in _REVIEWED
    ]  # fmt: skip
    text = write_sheet("ab" * 24, rows)
    yield from (text.encode(), text.replace(",", ";").encode(), text.encode("utf-16"))


@cache
def _plan() -> bytes:
    from authorizerd.management.plan.changes import make_changes
    from authorizerd.management.plan.document import (
        Plan,
        PlanSettings,
        PlanSource,
        State,
        name_steps,
    )
    from authorizerd.management.plan.selector import Selector
    from authorizerd.management.plan.state import change_digest, digest_acls

    selector, digest = Selector(None), digest_acls(_ACLS[:2])
    changes = make_changes(_ACLS[:2], _ACLS[1:], selector)
    return encode_plan(
        Plan(
            made_for=PlanSource(place="log", name="log", offset=7, acls=2, digest=digest),
            leads_to=State(3, change_digest(digest, changes)),
            settings=PlanSettings(("User:root",), True),
            manages=selector.document,
            warnings=(),
            checks=(),
            steps=name_steps(changes),
        )
    )


def _check_znode(data: bytes) -> None:
    """A znode or its path is written again as it was read."""
    pattern = Pattern(2, "orders", 3)
    with rejected_with(AclTextError, characters=OWN_CHARACTERS_MAX):
        found = read_acls(pattern, data)
        assert set(read_acls(pattern, write_acls(found))) == set(found)
    with rejected_with(AclTextError, characters=OWN_CHARACTERS_MAX):
        named = parse_path(_text(data))
        assert named is None or pattern_path(named) == _text(data)


def _check_word(data: bytes) -> None:
    """Hosts and moments have one meaning, or none."""
    text = _text(data)
    host = host_address(text)
    assert host is None or host_address(host) == host
    with rejected_with(InvalidAsOfError):
        assert parse_as_of(text) == parse_as_of(text)


_YAML_WORDS: Final = (
    *(b"acls:\n- ", b"&a ", b"*a", b"<<: ", b"!!binary ", b"!!bool ", b"!!int ", b"!!timestamp "),
    *(b"? ", b"---\n", b"...\n", b"|\n", b">-\n", b"%YAML 1.1\n", b"~", b"resource_type: TOPIC\n"),
    *(b"principal: User:a\n", b"operation: READ\n"),
)

TEXT_TARGETS: Final = (
    in_thread("properties", _check_properties, _properties,
              words=(*(f"\n{key.name}=".encode() for key in KEYS), b"\\\n", b"\\u00", b"!", b"#"),
              weight=12),
    in_thread("jaas", _check_jaas,
              lambda: (_JAAS.encode(), _JAAS.replace("plain.Plain", "scram.Scram").encode()),
              words=(b'user_a="', b"required", b"tokenauth=true", b";", b'\\"', b"'"), weight=40),
    in_thread("mapping-rules", _check_rules, _mapping_rules,
              words=tuple(rb"RULE: DEFAULT (?i) \p{Lu} [^ && {2,} (?<n> $1 /L".split())),
    in_thread("tokens", _check_tokens,
              lambda: (b"# c\nproxy %s User:a proxy\n\n%s\n" % (b"ab" * 32, SECRET.encode()),),
              words=(b"a " + b"0" * 64 + b" User:x\n", b"User:*", b"Group:g", b"#"), weight=40),
    in_thread("acl-files", _check_acl_text, _acl_texts,
              words=(*_YAML_WORDS, b'{"acls":[', b"(principal=User:a, host=*, operation=READ, "),
              weight=4),
    in_thread(
        "policies",
        _check_policy,
        _policies,
        words=(*_YAML_WORDS, b"nobody but ", b"at most 3 principals", b"$super_users", b"\n- "),
        weight=4
    ),
    in_thread("plans", _check_plan, lambda: (_plan(),), weight=8),
    in_thread("review-sheets", _check_sheet, _sheets,
              words=(b",", b";", b"\t", b'"', b"'", b"\r\n", b"remove", b"row-"), weight=8),
    in_thread("owners", _check_owners,
              lambda: (b"owners:\n  a: [{resource_type: TOPIC, resource_name_prefix: a-}]\n"
                       b"  b:\n    - principal_prefix: User:b\n",),
              words=(*_YAML_WORDS, b"owners:", b"principal: ", b"[{", b"\n  - "), weight=8),
    in_thread("znodes", _check_znode,
              lambda: (
                  b'{"acls":[{"principal":"User:a","permissionType":"Allow","host":"*",'
                  b'"operation":"Read"}],"version":1}',
                  b"/kafka-acl/Topic/orders",
                  b"/kafka-acl-extended/prefixed/Group/g",
              ),
              weight=30),
    reader("hosts-and-times", _check_word,
           lambda: (
               *(b"10.0.0.1", b"::ffff:10.0.0.1", b"fe80::1%eth0", b"2001:db8::9", b"2806"),
               *(b"2026-01-02T03:04:05.123Z", b"2026-01-02 03:04:05+01:00", b"1790000000000"),
           ),
           words=(b"::", b":0:", b".255", b"%", b"T24:00", b"+18:00", b"Z", b"-"), weight=50),
)  # fmt: skip
