"""Distinguished names as people write them, compared with the names that Java wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.text.distinguished_names import split_name, write_as_java
from tests.oracles.principals import cases


def test_javas_own_names_stay_as_they_are() -> None:
    names = [case["answer"] for case in cases() if "rules" not in case and case["answer"]]
    read = [name for name in names if split_name(name)]
    assert [write_as_java(split_name(name)) for name in read] == read
    unread = [name for name in names if name not in read]
    assert len(read) > 180
    # Java writes a part without attributes as an empty text. Real certificates have none.
    assert all(",," in name or name.startswith(",") or name.endswith(",") for name in unread)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("CN=a, OU=b ,O = c", "CN=a,OU=b,O=c"),
        ("cn=a,OID.2.5.4.11=b,2.5.4.10=c", "CN=a,OU=b,O=c"),
        ("/C=DE/O=a b/CN=host/x", "CN=host/x,O=a b,C=DE"),
        ("/ C = DE / CN = a", "CN=a,C=DE"),
        ("S=Bavaria,USERID=x", "ST=Bavaria,UID=x"),
        ('CN="Doe, John",O=x', r"CN=Doe\, John,O=x"),
        (r'CN="a\"b"', r"CN=a\"b"),
        (r"CN=a\2c\c3\a9", r"CN=a\,é"),
        (r"CN=a\ ,O=b", r"CN=a\ ,O=b"),
        (r"CN=a\\ ,O=b", r"CN=a\\,O=b"),
        ("CN=a + UID=b, O=c", "CN=a+UID=b,O=c"),
        *((f"{word}=x@y,CN=a", "1.2.840.113549.1.9.1=#1603784079,CN=a") for word in ("E", "email")),
        ("2.5.4.5=#130131", "2.5.4.5=#130131"),
        ("2.5.4.3=#1303414243", "CN=#1303414243"),
        (f"E={'x' * 200}", f"1.2.840.113549.1.9.1=#168200c8{'78' * 200}"),
        *((text, "") for text in ("a", "", "=", "=a", "CN", "CN=a,", ",CN=a", 'CN="a', "/a/b")),
        *((text, "") for text in ("CN=a,b", "CN=a\\", "1=a", "CN=a;b,c")),
    ],
)
def test_name_is_written_as_java_writes_it(name: str, written: str) -> None:
    assert write_as_java(split_name(name)) == written


@given(st.text('CN=a,+ \\"#/16\u0000é', max_size=24))
def test_what_is_written_is_read_back(name: str) -> None:
    written = write_as_java(split_name(name))
    assert write_as_java(split_name(written)) == written
