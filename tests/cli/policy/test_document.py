"""Policy files: their YAML, what they mean, and their faults with file, line and column."""

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.policy.document import FILE_BYTES_MAX, read_policy, read_policy_file
from authorizerd.cli.policy.faults import FAULTS_SHOWN_MAX, FaultyFileError
from authorizerd.config import yaml_tree
from authorizerd.config.yaml_tree import (
    DEPTH_MAX,
    Fields,
    Items,
    Node,
    Text,
    YamlError,
    read_yaml,
)
from authorizerd.management.policy.sentence import read_sentence
from authorizerd.management.policy.words import Assertion

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/policy-tests.md"
EXAMPLE = ROOT / "tools/example/access.yaml"
GROUPS = {"admins": ("User:admin", "User:root")}


@pytest.mark.parametrize(("fields", "sentence"), [
    ("principal: alice\n  may: READ\n  topic: orders", "alice may READ topic orders"),
    ("principals: [alice, $admins]\n  may: READ\n  topic: orders",
     "alice and $admins may READ topic orders"),
    ("principal: User:bob\n  may_not: [WRITE, delete]\n  topics: [a, b.*]",
     "User:bob may not WRITE or DELETE topics a, b.*"),
    ("principal: a\n  may: READ\n  group: g\n  host: 10.0.0.7", "a may READ group g from 10.0.0.7"),
    ("principal: a\n  may: READ\n  group: g\n  hosts: [10.0.0.7, '::1']",
     "a may READ group g from 10.0.0.7, ::1"),
    ("principal: a\n  may: READ\n  group: g\n  host: any", "a may READ group g"),
    ("nobody: true\n  may: ALTER\n  cluster: true", "nobody may ALTER the cluster"),
    ("nobody_but: [$super_users, admin]\n  may: ALTER\n  cluster: true",
     "nobody but $super_users and admin may ALTER the cluster"),
    ("only: alice\n  may: READ\n  topic: '*'", "only alice may READ any topic"),
    ("everyone: true\n  may: READ\n  topic: public", "everyone may READ topic public"),
    ("at_most: 3\n  may: WRITE\n  topic: payments.*", "at most 3 principals may WRITE payments.*"),
    ("at_most: 3\n  but: [a, b]\n  may: WRITE\n  topic: payments.*",
     "at most 3 principals but a, b may WRITE payments.*"),
    ("principal: a\n  may: ALL\n  transactional_id: {prefix: t-}",
     "a may ALL transactional-ids t-*"),
    ("principal: a\n  may: READ\n  group: {literal: x*}", 'a may READ group "x*"'),
    ("principal: a\n  may: DESCRIBE\n  delegation_token: t", "a may DESCRIBE delegation-token t"),
    ("principal: a\n  may: CREATE_TOKENS\n  user_principals: User:b",
     "a may CREATE_TOKENS user-principal User:b"),
])  # fmt: skip
def test_fields_mean_the_same_as_a_sentence(fields: str, sentence: str) -> None:
    text = f"principals: {{admins: [User:admin, User:root]}}\ntests:\n- {fields}\n- {sentence}\n"
    tests = read_policy(text, "f")
    assert [test.assertion for test in tests] == [read_sentence(sentence, GROUPS)] * 2


def assertions(text: str) -> list[Assertion]:
    return [test.assertion for test in read_policy(text, "f")]


def test_defaults_fill_what_tests_leave_out() -> None:
    text = """
defaults: {principal: alice, topics: [a, b], host: 10.0.0.7}
tests:
- may: READ
- {may: READ, nobody: true, host: any}
- {may: READ, group: g, hosts: [10.0.0.8]}
- bob may READ 7
- bob may READ 7 from any host
"""
    sentences = (
        "alice may READ topics a, b from 10.0.0.7", "nobody may READ topics a, b",
        "alice may READ group g from 10.0.0.8", "bob may READ 7 from 10.0.0.7", "bob may READ 7",
    )  # fmt: skip
    assert assertions(text) == [read_sentence(each, {}) for each in sentences]


def test_title_is_the_name_or_the_sentence_or_the_fields_in_words() -> None:
    text = """
tests:
- alice may READ 7
- {name: the name, assert: alice may READ 7}
- {name: the name, principal: alice, may: READ, topic: t}
- {principal: alice, may: READ, topic: t}
"""
    tests = read_policy(text, "f")
    assert [(test.line, test.title) for test in tests] == [
        (3, "alice may READ 7"),
        (4, "the name"),
        (5, "the name"),
        (6, "User:alice may READ topic t"),
    ]


WHOLE_FAULTS = [
    ("", ["1:1: expected a document, found nothing"]),
    ("tests", ["1:1: expected a mapping with 'tests', found the text 'tests'"]),
    ("{}", ["1:1: tests: expected a list of tests, found no key 'tests'"]),
    ("tests: []", ["1:8: tests: expected a list of tests, found a list"]),
    ("tests:\n", ["1:7: tests: expected a list of tests, found nothing"]),
    ("test: [a may READ 7]", ["1:1: unknown key 'test' (did you mean tests?)"]),
    ("tests: [a may READ 7]\ntests: [b may READ 7]", ["2:1: duplicate key 'tests'"]),
    ("tests:\n- name: n\n  name: m\n  assert: a may READ 7", ["3:3: duplicate key 'name'"]),
    ("tests:\n- a may READ topic: t",
     ["2:3: unknown key 'a may READ topic': quote a sentence that contains ': '"]),
    ("tests:\n- a may RAED 7", ["2:9: unknown operation 'RAED' (did you mean READ?)"]),
    ("tests:\n- 'a may RAED t'", ["2:10: unknown operation 'RAED'"]),
    ("tests:\n- a may READ\n    topc t", ["2:3: expected a resource type"]),
    ("tests:\n- a may READ 7\n- 7\n- b my READ 7",
     ["3:3: expected a sentence, found a number, '7': quote it if it is a text",
      "4:5: expected 'may' or 'can', found 'my'"]),
    ("tests:\n- no", ["2:3: expected a sentence, found a boolean, 'no': quote it if it is a text"]),
    ("tests:\n- [a may READ 7]", ["2:3: expected a sentence or a mapping, found a list"]),
    ("tests: [a may READ 7]\n---\ntests: []", ["2:1: expected one document, found a second"]),
    ("principals: {super_users: [a]}\ntests: [a may READ 7]", ["1:14: invalid group name"]),
    ("principals: {a b: [a]}\ntests: [a may READ 7]", ["1:14: invalid group name 'a b'"]),
    ("principals: {g: [User:*]}\ntests: [$g may READ 7]", ["1:18: User:* is not one principal"]),
    ("principals: [g]\ntests: [a may READ 7]", ["1:13: expected names with lists, found a list"]),
    ("defaults: {may: READ}\ntests: [a may READ 7]", ["1:12: unknown key 'may'"]),
    ("defaults: {host: x}\ntests: [a may READ 7, b may READ 7]", ["1:18: expected an IP address"]),
    ("tests: [[[[[[[[[a]]]]]]]]]", ["nested more than 8 levels deep"]),
    ("tests: [a may READ 7", ["not YAML"]),
    ("tests:\n\t- a", ["2:1: not YAML"]),
    ("tests: [a\0]", ["1:10: not YAML"]),
]  # fmt: skip
FIELD_FAULTS = [
    ("principal: no, may: READ, topic: t",
     ["2:15: expected a principal, found a boolean, 'no': quote it if it is a text"]),
    ("principal: a, may: READ, topic: 1_000",
     ["2:36: expected a name, found a number, '1_000': quote it if it is a text"]),
    ("principal: a, may: READ, topic: 2026-11-23", ["found a date"]),
    ("principal: a, may: READ, topic: 0x1F", ["found a number"]),
    ("principal: a, may: READ, topic: ~", ["expected a name, found nothing"]),
    ("principal: a, may: READ, topic: *name",
     ["2:36: expected a text or a list, found the alias *name: quote a text that begins with '*'"]),
    ("principal: a, may: READ, topic: *",
     ["2:37: not YAML: did not find expected alphabetic or numeric character: quote"]),
    ("principal: &a b, may: READ, topic: t",
     ["2:15: expected a text or a list, found the anchor &a: anchors are not"]),
    ("principal: !!str 1, may: READ, topic: t", ["2:15: expected no tag"]),
    ("<<: {a: b}", ["2:4: expected a text as a key, found a merge key"]),
    ("on: a", ["2:4: expected a text as a key, found a boolean, 'on'"]),
    ("[a]: b", ["2:4: expected a text as a key"]),
    ("principal: a, mya: READ, topic: t", ["2:18: unknown key 'mya' (did you mean may?)"]),
    ("principal: a, topic: t", ["2:3: missing what they may do: expected one of may"]),
    ("may: READ, topic: t", ["2:3: missing who: expected one of principal"]),
    ("principal: a, may: READ", ["2:3: missing the resource: expected one of topic"]),
    ("principal: a, nobody: true, may: READ, topic: t",
     ["2:18: expected one key for who, found 'principal' and 'nobody'"]),
    ("principal: a, may: READ, may_not: WRITE, topic: t",
     ["2:29: expected one key for what they may do"]),
    ("principal: a, may: READ, topic: t, group: g", ["2:39: expected one key for the resource"]),
    ("principal: a, may: READ, topic: t, host: 1.1.1.1, hosts: [1.1.1.2]",
     ["expected one key for the hosts"]),
    ("nobody: true, may_not: READ, topic: t", ["2:18: expected 'may': to assert"]),
    ("nobody: false, may: READ, topic: t", ["2:12: expected true, found a boolean"]),
    ("nobody: yes, may: READ, topic: t", ["2:12: expected true, found a boolean"]),
    ("nobody: 'true', may: READ, topic: t", ["2:13: expected true, found the text"]),
    ("at_most: '3', may: READ, topic: t", ["2:14: expected a number, found the text"]),
    ("at_most: 1_000, may: READ, topic: t", ["2:13: expected a number from 0 to"]),
    ("at_most: -1, may: READ, topic: t", ["2:13: expected a number from 0 to"]),
    ("principal: a, but: b, may: READ, topic: t", ["2:18: expected 'but' only with"]),
    ("principal: $super_users, may: READ, topic: t", ["2:15: expected $super_users only in"]),
    ("principal: a, may: [], topic: t",
     ["2:23: expected an operation or a list, found an empty list"]),
    ("principal: a, may: [READ, READ], topic: t", ["2:30: 'READ' is already in line"]),
    ("principal: a, may: [[READ]], topic: t", ["2:24: expected an operation, found a list"]),
    ("principal: a, may: READ, topic: {name: t}", ["2:37: unknown key 'name'"]),
    ("principal: a, may: READ, topic: {literal: ''}",
     ["2:47: expected a name, found an empty text"]),
    ("principal: a, may: READ, topic: t, host: web-1",
     ["2:45: expected an IP address, found 'web-1'"]),
    ("principal: a, may: ALTER, group: g", ["2:23: ALTER does not apply to GROUP"]),
    ("name: n, assert: a may READ 7, topic: t",
     ["2:35: expected a sentence or fields, found 'assert' and 'topic'"]),
    ("name: 7, assert: a may READ 7", ["2:10: expected a name, found a number"]),
]  # fmt: skip
"""The fields of a test in line 2, after column 3."""


@pytest.mark.parametrize(
    ("text", "faults"),
    [*WHOLE_FAULTS, *((f"tests:\n- {{{fields}}}", faults) for fields, faults in FIELD_FAULTS)],
)
def test_fault_is_reported_at_its_place(text: str, faults: list[str]) -> None:
    with pytest.raises(FaultyFileError) as raised:
        read_policy(text, "a.yaml")
    lines = [line for line in str(raised.value).splitlines() if not line.startswith("    ")]
    assert len(lines) == len(faults)
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith("a.yaml:")
        assert fault in line


def test_unreadable_sentence_is_shown_with_the_word_and_examples() -> None:
    with pytest.raises(FaultyFileError) as raised:
        read_policy("tests:\n- alice may RAED topic orders\n", "a.yaml")
    first, sentence, mark, *examples = str(raised.value).splitlines()
    assert first.startswith("a.yaml:2:13: unknown operation 'RAED' (did you mean READ?)")
    assert sentence == "    alice may RAED topic orders"
    assert mark == "              ^^^^"
    assert "      alice may READ topic orders from 10.0.0.7" in examples


def test_examples_are_shown_once() -> None:
    with pytest.raises(FaultyFileError) as raised:
        read_policy("tests: [a my READ topic t, b my READ topic t]", "a.yaml")
    assert str(raised.value).count("A sentence is, for example:") == 1


def test_first_faults_are_shown_and_all_are_counted() -> None:
    with pytest.raises(FaultyFileError) as raised:
        read_policy("tests:\n" + "- 7\n" * (FAULTS_SHOWN_MAX + 2), "a.yaml")
    *shown, last = str(raised.value).splitlines()
    assert len(shown) == FAULTS_SHOWN_MAX
    assert last == f"a.yaml:{FAULTS_SHOWN_MAX + 2}:3: 2 more faults"
    assert raised.value.count == FAULTS_SHOWN_MAX + 2


@pytest.mark.parametrize(("content", "fault"), [
    (None, "1:1: No such file or directory"),
    (b"x" * (FILE_BYTES_MAX + 1), f"1:1: expected at most {FILE_BYTES_MAX} bytes, found more"),
    (b"tests:\n- a \xff", "2:5: not valid UTF-8"),
])  # fmt: skip
def test_unreadable_file_is_a_fault(tmp_path: Path, content: bytes | None, fault: str) -> None:
    path = tmp_path / "a.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FaultyFileError) as raised:
        read_policy_file(path)
    assert str(raised.value) == f"{path}:{fault}"


def test_small_file_does_not_become_a_large_tree() -> None:
    """Aliases of aliases would double it with each line."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(FaultyFileError, match="the anchor &a0"):
        read_policy("\n".join(lines), "f")


def test_deep_nesting_is_a_fault_and_no_crash() -> None:
    with pytest.raises(FaultyFileError, match="nested more than"):
        read_policy("tests: " + "[" * 100_000, "f")


@given(
    st.text(max_size=60) | st.text(" :-[]{},&*!|>'\"\n#ab", max_size=30).map("tests:\n- ".__add__)
)
def test_any_text_is_a_policy_or_an_error(text: str) -> None:
    with contextlib.suppress(FaultyFileError):
        read_policy(text, "f")


def test_examples_of_the_page_are_policies() -> None:
    """The first one is the file that ``make run`` writes."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    policies = [block for block in blocks if "tests:" in block]
    assert policies[0] == EXAMPLE.read_text()
    assert [len(read_policy(text, "page")) for text in policies] == [5, 3]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8) | st.sampled_from(
    ["no", "1_000", "*a", "&a", "~", "<<", "2026-11-23", "a: b", "- a", "#", "'", '"', "a\nb", "!x"]
)
values = st.recursive(
    texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def plain(node: Node) -> object:
    """Return the tree without places. Every scalar must be a text."""
    match node:
        case Text():
            assert node.kind is None, node
            return node.value
        case Items():
            return [plain(each) for each in node.nodes]
        case Fields():
            return {key: plain(value) for key, (_, value) in node.pairs.items()}


@given(values, st.sampled_from([None, "'", '"']), st.booleans())
def test_written_document_reads_back(value: object, style: str | None, flow: bool) -> None:
    """PyYAML quotes what it would not read as a text; both agree on which words these are."""
    if _depth(value) > DEPTH_MAX:
        return
    written = yaml.safe_dump(
        value, allow_unicode=True, default_style=style, default_flow_style=flow
    )
    assert "&id" not in written
    assert plain(read_yaml(written.replace("!!str ", ""))) == value


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 1


@pytest.mark.parametrize("text", [
    "a: [b, 'c', \"d\"]\ne:\n- {f: g}\n- >\n  folded\n  text\n- |\n  block\n",
    "- no\n- 1_000\n- ~\n-\n- 0x1F\n- 1.5\n- 2026-11-23\n- yes\n- =\n",
    "plain words\n  on two lines\n",
    "- 'it''s'\n-   \"tab\\t\"\n",
])  # fmt: skip
def test_both_parsers_give_the_same_tree(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may be installed without libyaml."""
    tree = read_yaml(text)
    monkeypatch.setattr(yaml_tree, "_LOADER", yaml.SafeLoader)
    assert read_yaml(text) == tree


@pytest.mark.parametrize("text", ["a: *b", "a: &b c", "[", "a: b\na: c", "--- a\n--- b", "!!str a"])
def test_both_parsers_reject_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loader in (yaml.SafeLoader, yaml_tree._LOADER):
        monkeypatch.setattr(yaml_tree, "_LOADER", loader)
        with pytest.raises(YamlError):
            read_yaml(text)


@pytest.mark.parametrize(("text", "kind"), [
    ("no", "a boolean"), ("Off", "a boolean"), ("1_000", "a number"), ("0o17", None),
    ("017", "a number"), ("1e3", None), ("1.0e+3", "a number"), (".inf", "a number"),
    ("~", "nothing"), ("null", "nothing"), ("12:30", "a number"), ("2026-11-23", "a date"),
    ("<<", "a merge key"), ("=", "a default key"), ("User:no", None), ("'no'", None),
])  # fmt: skip
def test_kind_is_what_yaml_makes_of_a_word(text: str, kind: str | None) -> None:
    node = read_yaml(text)
    assert isinstance(node, Text)
    assert node.kind == kind


@pytest.mark.parametrize(("text", "place"), [
    ("- word", (1, 3, True)),
    ("- 'word'", (1, 4, True)),
    ('- "a\\tb"', (1, 3, False)),
    ("- >\n  word", (1, 3, False)),
    ("- word\n  more", (1, 3, False)),
    ("- ü 'x'", (1, 3, True)),
    ("# é\n-  word", (2, 4, True)),
])  # fmt: skip
def test_place_of_a_text_is_where_it_begins(text: str, place: tuple[int, int, bool]) -> None:
    root = read_yaml(text)
    assert isinstance(root, Items)
    (node,) = root.nodes
    assert isinstance(node, Text)
    assert (node.line, node.column, node.is_exact) == place
