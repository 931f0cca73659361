"""What changed between two releases, read from what javap prints and from definitions."""

import json

import pytest

from tests.releases import changes
from tests.releases.changes import codes_of, differences, main, members_of, message_of, read_javap

PRINTED = """Compiled from "Old.java"
public class a.Old {
  private int kept;

  public int get();
    Code:
       0: aload_0
       1: getfield      #7                  // Field kept:I
       4: ireturn
}
Compiled from "Version.java"
public final class a.KindVersion extends java.lang.Enum<a.KindVersion> {
  static {};
    Code:
       4: ldc           #52                 // String KV_0
       6: iconst_0
       7: iconst_0
      24: ldc_w         #67                 // String KV_1
      26: bipush        6
      27: sipush        300
      46: getstatic     #7                  // Field KV_1:La/KindVersion;
      49: putstatic     #75                 // Field LATEST_PRODUCTION:La/KindVersion;
}
"""
MESSAGE = {
    "apiKey": 9, "name": "Asked", "validVersions": "0-1",
    "fields": [
        {"name": "Old", "type": "int8", "versions": "0+"},
        {"name": "New", "type": "[]Part", "versions": "1+", "tag": 0},
    ],
    "commonStructs": [
        {"name": "Part", "fields": [{"name": "A", "type": "bool", "versions": "1+"}]}
    ],
}  # fmt: skip


def test_members_are_public_and_code_is_compared_without_its_constants() -> None:
    (declaration, body), _ = read_javap(PRINTED)
    assert declaration == "public class a.Old"
    members = members_of(body)
    assert "public int get()" in members
    assert not any("kept" in each for each in members)
    assert members_of(body.replace("#7 ", "#8 ").replace("1: ", "2: ")) == members
    assert len(members ^ members_of(body.replace("ireturn", "iadd"))) == 2


def test_levels_and_the_newest_one_are_read() -> None:
    _, (_, body) = read_javap(PRINTED)
    assert codes_of(body) == {"KV_0 = 0", "KV_1 = 300", "newest: KV_1"}


def test_message_has_its_versions_and_all_fields() -> None:
    text = f"// Version 1 adds New.\n{json.dumps(MESSAGE)}"
    name, lines = message_of(text)
    assert name == "Asked"
    assert lines == {
        "key 9",
        "versions 0-1",
        "Old: int8, versions 0+",
        "New: []Part, versions 1+, tag 0",
        "New.A: bool, versions 1+",
    }


def test_message_without_versions_has_no_fields() -> None:
    _, lines = message_of('{"name": "Gone", "validVersions": "none"}')
    assert lines == {"versions none"}


def test_differences_are_named() -> None:
    before = {"gone": frozenset("a"), "kept": frozenset("a"), "changed": frozenset("ab")}
    after = {"kept": frozenset("a"), "changed": frozenset("bc"), "new": frozenset("a")}
    found = list(differences(before, after))
    assert found == ["changed", "  - a", "  + c", "- gone", "+ new"]


def test_each_section_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(changes, "read_release", lambda version: {"APIs": {version: frozenset()}})
    assert main(["1.0", "2.0"]) == 0
    assert capsys.readouterr().out == "APIs:\n  - 1.0\n  + 2.0\n"


@pytest.mark.parametrize("arguments", [[], ["4.3.1"]])
def test_missing_release_is_an_error(arguments: list[str]) -> None:
    assert main(arguments) == 2
