"""Hypothesis strategies: questions that meet the ACLs of ``tests.support.strategies``."""

from hypothesis import strategies as st

from authorizerd.acl.model import Operation, Question, ResourceType
from tests.support.strategies import HOSTS, PRINCIPALS, resource_names


def questions() -> st.SearchStrategy[Question]:
    """Return questions of one principal, on names that the ACLs use or that begin with them."""
    return st.builds(
        Question,
        principal=st.sampled_from([name for name in PRINCIPALS if name != "User:*"]),
        host=st.sampled_from([None, "10.9.9.9", *(host for host in HOSTS if host != "*")]),
        operation=st.sampled_from(list(Operation)),
        resource_type=st.sampled_from(list(ResourceType)),
        resource_name=st.builds(str.__add__, resource_names, resource_names),
    )
