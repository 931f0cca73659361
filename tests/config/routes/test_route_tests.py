"""Questions as text: what ``write_question`` writes is read back."""

from hypothesis import given
from hypothesis import strategies as st

from authorizerd.acl.model import CLUSTER_NAME, OPERATION_NAMES, ResourceType
from authorizerd.acl.operations import SUPPORTED
from authorizerd.config.routes.questions import parse_questions
from authorizerd.config.routes.route_tests import write_question

NAMES = st.one_of(st.text(min_size=1), st.text(' ,"\\%sa-\n', min_size=1)).filter(
    lambda name: not set(name) & set("{}")
)
KINDS = [
    (operation, resource_type)
    for resource_type in SUPPORTED
    for operation in SUPPORTED[resource_type]
]


@given(st.lists(st.tuples(st.sampled_from(KINDS), NAMES), min_size=1, max_size=5))
def test_written_questions_are_read_back(asked: list[tuple[tuple[int, int], str]]) -> None:
    """A name in braces would be a variable, so no test can expect it."""
    questions = [
        (operation, kind, CLUSTER_NAME if kind == ResourceType.CLUSTER else name)
        for (operation, kind), name in asked
    ]
    text = ", ".join(write_question(*each) for each in questions)
    found = [
        (each.operation, each.resource_type, each.fill(())) for each in parse_questions(text, ())
    ]
    assert found == questions
    assert text.startswith(OPERATION_NAMES[questions[0][0]])
