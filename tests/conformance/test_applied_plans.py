"""Plans on a real broker: it ignores our tagged field, and every race is reported.

The broker makes a change without comparing, so a change between a listing and the next request
cannot be prevented. It must be found afterwards.
"""

from authorizerd.cli.change.apply_server import Answered
from authorizerd.cli.change.execution import Ending, Execution
from authorizerd.kafka_client.log_in import Credentials, Mechanism
from authorizerd.management.plan.changes import AclRequest
from tests.cli.change.acl_servers import new_plan, open_server, race_often, set_acls, some_acls
from tests.kafka_rig.broker import ADMIN, Broker
from tests.support.acls import acl

RACES = 100
SETTLE_SECONDS = 5.0
"""A broker of one node shows a change a few milliseconds after it has acknowledged it."""
OTHER = acl("User:other", topic="other")


def log_in(broker: Broker) -> Credentials:
    return Credentials(
        mechanism=Mechanism.PLAIN, username=ADMIN, password=broker.settings.users[ADMIN]
    )


async def test_broker_ignores_an_expected_offset(broker: Broker) -> None:
    """Our daemon would reject offset 0 of long ago. The broker's answer has no offset."""
    async with open_server(broker.sasl_plaintext, log_in(broker)) as server:
        await set_acls(server, [])
        assert (await server.list_acls()).offset is None
        answer = await server.send(AclRequest("create_allow", (OTHER,)), 0)
        assert answer == Answered((), None, ())
        answer = await server.send(AclRequest("delete_allow", (OTHER,)), 0)
        assert answer == Answered((), None, ())


async def test_plan_is_applied_on_a_broker(broker: Broker) -> None:
    async with open_server(broker.sasl_plaintext, log_in(broker)) as server:
        before, after = some_acls(range(40)), some_acls(range(20, 60))
        await set_acls(server, before)
        plan = new_plan(before, after)
        execution = Execution(plan, server, report=lambda _: None)
        await execution.run()
        assert execution.progress.ending is Ending.APPLIED
        assert not execution.progress.compares
        again = Execution(plan, server, report=lambda _: None)
        await again.run()
        assert again.progress.ending is Ending.NOTHING_TO_DO
        await set_acls(server, [])


async def test_every_race_on_a_broker_is_reported(broker: Broker) -> None:
    async with open_server(broker.sasl_plaintext, log_in(broker)) as server:
        tally = await race_often(server, RACES, settle_seconds=SETTLE_SECONDS)
        await set_acls(server, [])
    assert tally["races"] == RACES
    assert tally["unreported"] == 0
    assert tally["blind"] > 0, "the broker does not compare"
    assert tally["stopped"] > RACES / 2
