"""Run ``authorizerd verify --probe``: ask both sides, ask again where they differ, print the page.

Exit codes: 0 all judged answers agree, 3 one differs, 5 none differs, but too little was judged, 2
invalid arguments, 1 a fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from itertools import chain, zip_longest
from typing import Final

import trio

from authorizerd.cli.acl_source import open_source
from authorizerd.cli.broker_acls import BrokerReader, run_on_brokers
from authorizerd.cli.output import print_answer
from authorizerd.cli.probe.arguments import ProbeRequest
from authorizerd.cli.probe.brokers import CLUSTER, Brokers
from authorizerd.cli.probe.causes import find_differences
from authorizerd.cli.probe.comparing import Compared, compare, confirm
from authorizerd.cli.probe.deciding import AclDecider, DaemonDecider, Decider
from authorizerd.cli.probe.report import Probed, page_lines
from authorizerd.cli.question_words import Resource

RESOURCES_PER_REQUEST: Final = 50
EXIT_NO_EVIDENCE: Final = 5


def run_probe(request: ProbeRequest) -> int:
    """Compare a cluster with a daemon, or with ACLs; return the exit code. Blocks.

    Raises:
        CommandError: one side cannot be asked.
    """

    async def use(reader: BrokerReader) -> Probed:
        return await probe(reader, request, lambda: open_side(request))

    probed = run_on_brokers(request.bootstrap_server, request.command_config, use)
    code = print_answer(
        as_json=request.json,
        document=lambda: probed,
        lines=lambda: page_lines(probed),
        is_positive=not probed.differences,
    )
    return code if code or probed.is_proof else EXIT_NO_EVIDENCE


async def probe(
    reader: BrokerReader, request: ProbeRequest, open_side: Callable[[], Decider]
) -> Probed:
    """Ask both sides, and again after the window where they differ.

    Args:
        open_side: returns our side, with the newest ACLs; it may block.

    Raises:
        CommandError: one side cannot be asked.
    """
    decider = open_side()  # before the brokers are asked
    async with AsyncExitStack() as stack:
        brokers = Brokers(reader, request.rate, stack)
        listed = await brokers.list_resources()
        from_acls = decider.list_resources() if isinstance(decider, AclDecider) else ()
        # In turn, so that the bound leaves out as many of each.
        found = chain.from_iterable(zip_longest(listed, from_acls))
        resources = [*dict.fromkeys((*request.resources, *filter(None, found)))]
        chosen = [CLUSTER, *resources[: request.max_resources]]
        compared = await _compare_all(brokers, decider, chosen)
        differed = {name: each for name, each in compared.items() if any(each.differences)}
        if differed:
            await trio.sleep(request.window)
            decider = open_side()
            second = await _compare_all(brokers, decider, list(differed))
            compared |= {name: confirm(differed[name], each) for name, each in second.items()}
    seen = Counter(each.is_visible for each in compared.values())
    not_judged = sum((each.not_judged for each in compared.values()), Counter[str]())
    agreed = [one for each in compared.values() for one in each.judged if not one.is_different]
    at_first = {
        (one.resource, one.operation) for each in differed.values() for one in each.differences
    }
    return Probed(
        cluster_id=brokers.cluster_id,
        brokers=len(brokers.nodes),
        principal=request.principal,
        host=request.host,
        compared_with=decider.description,
        unknown_settings=decider.unknown_settings,
        window_s=request.window,
        visible=seen[True],
        hidden=seen[False],
        left_out=max(len(resources) - request.max_resources, 0),
        agreed=len(agreed),
        agreed_later=sum((one.resource, one.operation) in at_first for one in agreed),
        not_visible=sum(each.hidden for each in compared.values()),
        not_judged=dict(not_judged.most_common()),
        not_judged_max=request.max_not_judged,
        differences=find_differences(compared, decider, request.principal),
    )


async def _compare_all(
    brokers: Brokers, decider: Decider, resources: Sequence[Resource]
) -> dict[Resource, Compared]:
    """Compare chunk by chunk, so that both sides are asked at nearly the same time."""
    compared: dict[Resource, Compared] = {}
    for begin in range(0, len(resources), RESOURCES_PER_REQUEST):
        shown = await brokers.describe(resources[begin : begin + RESOURCES_PER_REQUEST])
        compared.update(compare(shown, decider))
    return compared


def open_side(request: ProbeRequest) -> Decider:
    """Return our side, with the newest ACLs. Blocks.

    Raises:
        CommandError: the ACLs cannot be read.
    """
    principal, host = request.principal, request.host
    if request.daemon is not None:
        return DaemonDecider(request.daemon, request.token, request.cafile, principal, host)
    assert request.source is not None, "one of both is given"
    return AclDecider(open_source(request.source), principal, host)
