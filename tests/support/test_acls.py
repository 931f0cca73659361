import pytest

from authorizerd.acl.model import CLUSTER_NAME, Acl, Question
from tests.support.acls import acl, question


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (acl(), Acl(2, "t", 3, "User:a", "*", 3, 3)),
        (
            acl("User:b", "WRITE", group="g", pattern="PREFIXED", deny=True, host="h"),
            Acl(3, "g", 4, "User:b", "h", 4, 2),
        ),
        (acl(operation=99, cluster=True, pattern=1), Acl(4, CLUSTER_NAME, 1, "User:a", "*", 99, 3)),
        (acl(transactional_id="x"), Acl(5, "x", 3, "User:a", "*", 3, 3)),
        (question("User:b", "ALTER", user="u"), Question("User:b", "10.0.0.1", 7, 7, "u")),
        (question(delegation_token="", host=None), Question("User:a", None, 3, 6, "")),
    ],
)
def test_words_are_kafkas_codes(made: Acl | Question, expected: Acl | Question) -> None:
    assert made == expected


def test_acl_has_exactly_one_resource() -> None:
    with pytest.raises(ValueError, match="unpack"):
        acl(topic="a", group="b")
