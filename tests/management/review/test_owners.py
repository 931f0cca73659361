"""Files of owners: what they own, and the errors in them."""

import pytest

from authorizerd.management.formats.model import AclTextError
from authorizerd.management.review.owners import read_owners
from tests.support.acls import acl

TEXT = """\
owners:
  orders:
    - {resource_type: TOPIC, resource_name_prefix: orders-}
    - principal_prefix: User:orders-
  platform:
    - resource_type: CLUSTER
"""


def test_owner_owns_what_meets_one_of_its_entries() -> None:
    owners = read_owners(TEXT)
    assert [owner.name for owner in owners] == ["orders", "platform"]
    for each, names in (
        (acl(topic="orders-1"), ["orders"]),
        (acl("User:orders-x", "ALTER", cluster=True), ["orders", "platform"]),
        (acl(topic="*"), []),
    ):
        assert [owner.name for owner in owners if owner.selector.manages(each)] == names


@pytest.mark.parametrize(("text", "error"), [
    ("", "document: expected one key, owners, with a list for each owner"),
    ("owners: {}\nx: 1", "document: expected one key, owners"),
    ("owners: []", "line 1, column 9: owners: expected the names of owners"),
    ("owners:\n  no-Owner: []", "files get this name: expected at most 100 letters, dig"),
    ("owners:\n  a/b: []", "owners.a/b: files get this name"),
    ("owners:\n  7: []", "owners.7: files get this name"),
    ("owners:\n  a: [{resource_type: TOPIC}]\n  A: []", "line 3, column 6: owners.A: expected one"),
    ("owners:\n  a: []", "line 2, column 6: owners.a: expected a list of entries, such as"),
    ("owners:\n  a: [{}]", "line 2, column 7: owners.a[0]: expected at least one field, such as"),
    ("owners:\n  a:\n    - topic: t", "line 3, column 7: owners.a[0]: Object contains unknown field"
     " `topic`; the fields are principal, principal_prefix, "),
    ("owners:\n  a: [{resource_type: TOPICS}]", "Invalid enum value 'TOPICS' - at `$."),
    ("owners:\n  a: [{principal: a}]", "line 2, column 19: owners.a[0].principal: expected Type"),
    ("owners:\n  a: 1\n  a: 2", "line 3: duplicate key 'a'"),
])  # fmt: skip
def test_faulty_file_is_rejected_with_place_and_remedy(text: str, error: str) -> None:
    with pytest.raises(AclTextError) as raised:
        read_owners(text)
    assert error in str(raised.value)
