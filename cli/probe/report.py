"""The document of ``authorizerd verify --probe``, and the page that shows it.

**Invariant:** each operation is in exactly one of ``agreed``, ``not_visible``, ``not_judged`` and
``differences``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from authorizerd.acl.explanation.words import count_of
from authorizerd.cli.probe.causes import Difference

SHOWN_MAX: Final = 10


class Probed(msgspec.Struct, frozen=True, kw_only=True):
    """The result.

    Attributes:
        visible, hidden: numbers of resources; all others are numbers of answers.
        left_out: the number of resources beyond ``--max-resources``.
        agreed_later: of the agreed answers, those that differed when they were asked first.
        not_visible: the operations of hidden resources, except DESCRIBE.
    """

    cluster_id: str
    brokers: int
    principal: str
    host: str
    compared_with: str
    unknown_settings: tuple[str, ...]
    window_s: int
    visible: int
    hidden: int
    left_out: int
    agreed: int
    agreed_later: int
    not_visible: int
    not_judged: dict[str, int]
    not_judged_max: float
    differences: Sequence[Difference]

    @property
    def judged(self) -> int:
        return self.agreed + len(self.differences)

    @property
    def lacks_evidence(self) -> bool:
        """Whether nothing is visible, or too little was judged."""
        not_judged = sum(self.not_judged.values())
        return not self.visible or not_judged > self.not_judged_max * (self.judged + not_judged)

    @property
    def is_proof(self) -> bool:
        return not self.differences and not self.lacks_evidence


def page_lines(probed: Probed) -> Iterator[str]:
    """Yield the lines of the page, which may hold unprintable characters."""
    brokers = count_of(probed.brokers, "broker")
    yield f"{brokers} of cluster {probed.cluster_id}, asked as {probed.principal}"
    yield f"compared with {probed.compared_with}, asked from {probed.host}"
    for key in probed.unknown_settings:
        yield f"{key} is unknown: pass --{key.replace('.', '-')}"
    yield f"{count_of(probed.visible, 'visible resource')}, {probed.hidden} not visible"
    if probed.left_out:
        yield f"not asked about: {count_of(probed.left_out, 'more resource')}: --max-resources"
    later = f"agreed only after {probed.window_s} s"
    numbers = {"judged": probed.judged, "agreed": probed.agreed, later: probed.agreed_later}
    numbers["not visible, so not judged"] = probed.not_visible
    numbers |= {f"not judged, {reason}": answers for reason, answers in probed.not_judged.items()}
    for what, answers in numbers.items():
        if answers or what in ("judged", "agreed"):
            yield f"{what}: {count_of(answers, 'answer')}"
    if not probed.visible:
        yield f"this proves little: the brokers show nothing to {probed.principal}"
    elif probed.lacks_evidence:
        share = f"{probed.not_judged_max:.0%}"
        yield f"this proves little: more than {share} of the answers were not judged"
    yield from _differences_lines(probed.differences)


def _differences_lines(differences: Sequence[Difference]) -> Iterator[str]:
    if not differences:
        yield "differences: none"
    for cause, answers in Counter(each.cause for each in differences).items():
        yield f"differences, {cause}: {count_of(answers, 'answer')}"
        alike = [each for each in differences if each.cause is cause]
        for each in alike[:SHOWN_MAX]:
            yield from _difference_lines(each)
        if answers > SHOWN_MAX:
            yield f"  and {answers - SHOWN_MAX} more"


def _difference_lines(each: Difference) -> Iterator[str]:
    yield f"  {each.operation} {each.resource_type} {each.resource_name}"
    yield f"    brokers: {_answer(each.brokers_allowed) if each.is_visible else 'not visible'}"
    yield f"    here: {_answer(each.allowed)}, {each.rule}"
    yield f"    likely: {each.detail}"


def _answer(is_allowed: bool) -> str:
    return "Allowed" if is_allowed else "Denied"
