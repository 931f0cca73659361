"""The tree of a YAML document, with both of PyYAML's parsers."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.cli.policy import yaml_tree
from authorizerd.cli.policy.yaml_tree import (
    DEPTH_MAX,
    Fields,
    Items,
    Node,
    Text,
    YamlError,
    read_yaml,
)

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


@pytest.mark.parametrize(
    "text",
    [
        "a: [b, 'c', \"d\"]\ne:\n- {f: g}\n- >\n  folded\n  text\n- |\n  block\n",
        "- no\n- 1_000\n- ~\n-\n- 0x1F\n- 1.5\n- 2026-11-23\n- yes\n- =\n",
        "plain words\n  on two lines\n",
        "- 'it''s'\n-   \"tab\\t\"\n",
    ],
)
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


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("no", "a boolean"), ("Off", "a boolean"), ("1_000", "a number"), ("0o17", None),
        ("017", "a number"), ("1e3", None), ("1.0e+3", "a number"), (".inf", "a number"),
        ("~", "nothing"), ("null", "nothing"), ("12:30", "a number"), ("2026-11-23", "a date"),
        ("<<", "a merge key"), ("=", "a default key"), ("User:no", None), ("'no'", None),
    ],
)  # fmt: skip
def test_kind_is_what_yaml_makes_of_a_word(text: str, kind: str | None) -> None:
    node = read_yaml(text)
    assert isinstance(node, Text)
    assert node.kind == kind


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- word", (1, 3, True)),
        ("- 'word'", (1, 4, True)),
        ('- "a\\tb"', (1, 3, False)),
        ("- >\n  word", (1, 3, False)),
        ("- word\n  more", (1, 3, False)),
        ("- ü 'x'", (1, 3, True)),
        ("# é\n-  word", (2, 4, True)),
    ],
)
def test_place_of_a_text_is_that_of_its_first_character(
    text: str, place: tuple[int, int, bool]
) -> None:
    root = read_yaml(text)
    assert isinstance(root, Items)
    (node,) = root.nodes
    assert isinstance(node, Text)
    assert (node.line, node.column, node.is_exact) == place
