"""Whether an SMS arrived that was only accepted, asked of a stand-in of Twilio."""

from collections.abc import AsyncIterator

import anyio
import pytest

from safetyd.core.events.notification_events import NotTold, Told
from safetyd.core.outbox.deliveries import Delivery
from safetyd.notify.sms.channel import SmsConfig
from safetyd.notify.sms.delivery_reports import DeliveryReports, arrived
from safetyd.notify.sms.sms_channel import Sms
from safetyd.notify.sms.twilio_client import connect
from tests.notify.channel_context import context
from tests.notify.compose_rig import ComposeRig, telling
from tests.notify.sms.twilio_stand_in import ACCOUNT, AUTH_TOKEN, Twilio, twilio
from tests.servers import until

pytestmark = pytest.mark.req("S3.25")


class Post:
    """One SMS that Twilio took, and whoever asks about it."""

    def __init__(self, server: Twilio, sms: Sms) -> None:
        self.server = server
        self.wired = ComposeRig(telling("sms"))
        self.sms = sms
        self.arrivals = DeliveryReports(self.wired.mailbox, sms.state_of)

    async def sends(self) -> Delivery:
        delivery = self.wired.due()
        receipt = await self.sms.send(self.wired.says(delivery))
        self.tells(delivery, receipt.provider_id)
        return delivery

    def tells(self, delivery: Delivery, provider_id: str) -> None:
        told = Told(
            at=self.wired.at,
            t=self.wired.clock.t,
            delivery=delivery.id,
            channel=delivery.channel,
            state="accepted",
            provider_id=provider_id,
        )
        self.wired.happens(told)

    def becomes(self, delivery: Delivery, status: str) -> None:
        self.server.statuses[delivery.provider_id] = status

    async def looks(self, after_s: float) -> None:
        self.wired.clock.t += after_s
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.wired.work)
            await self.arrivals.look()
            tasks.cancel_scope.cancel()
        self.wired.write()


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    async with twilio() as server:
        config = SmsConfig(from_="+15550199", account_sid=ACCOUNT, api_url=server.url)
        yield Post(server, Sms(config, connect(ACCOUNT, AUTH_TOKEN, server.url, 9.0), context()))


async def test_a_message_that_arrived_is_delivered(post: Post) -> None:
    delivery = await post.sends()
    post.becomes(delivery, "delivered")

    await post.looks(30)
    early = delivery.state
    await post.looks(40)

    assert (early, delivery.state) == ("accepted", "delivered")


async def test_a_message_that_did_not_arrive_is_undelivered_and_says_why(post: Post) -> None:
    delivery = await post.sends()
    post.becomes(delivery, "failed")

    await post.looks(60)

    (lost,) = post.wired.journalled(NotTold)
    assert isinstance(lost, NotTold)
    assert (lost.state, lost.error) == ("undelivered", "the provider could not deliver it")
    assert delivery.state == "undelivered"


async def test_a_message_is_asked_about_three_times_and_then_let_be(post: Post) -> None:
    delivery = await post.sends()

    await post.looks(60)
    await post.looks(10)
    await post.looks(240)
    await post.looks(1800)
    post.becomes(delivery, "delivered")
    await post.looks(1800)

    assert delivery.state == "accepted"


async def test_what_was_accepted_long_before_a_restart_is_let_be(post: Post) -> None:
    delivery = await post.sends()
    post.becomes(delivery, "delivered")

    await post.looks(90_000)

    assert delivery.state == "accepted"


async def test_what_has_no_number_is_not_asked_about(post: Post) -> None:
    delivery = post.wired.due()
    post.tells(delivery, "")

    await post.looks(60)

    assert delivery.state == "accepted"


async def test_it_looks_again_and_again(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.sms.delivery_reports.LOOK_S", 0.01)
    delivery = await post.sends()
    post.becomes(delivery, "delivered")
    post.wired.clock.t += 60

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(post.arrivals.run)
        tasks.start_soon(post.wired.work)
        await until(lambda: delivery.state == "delivered", 5)
        tasks.cancel_scope.cancel()

    assert delivery.state == "delivered"


@pytest.mark.parametrize(
    ("provider_id", "state"), [("x1", None), ("x2", "delivered"), ("", "delivered")]
)
def test_what_says_nothing_or_is_about_no_message_changes_nothing(
    provider_id: str, state: str | None
) -> None:
    wired = ComposeRig(telling("sms"))
    delivery = wired.due()
    told = Told(
        at=wired.at,
        t=wired.clock.t,
        delivery=delivery.id,
        channel="sms",
        state="accepted",
        provider_id="x1",
    )
    wired.happens(told)

    wired.does(arrived(provider_id, state))  # type: ignore[arg-type]

    assert delivery.state == "accepted"
