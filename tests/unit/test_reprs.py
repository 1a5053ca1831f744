"""What an object prints of itself: names and numbers, and nothing that may be secret or large."""

from __future__ import annotations

import attrs
from rows import for_each

from tinker_ext._transport.headers import WrittenForms
from tinker_ext._transport.messages import Call, Lane, Reply
from tinker_ext._wire.payload import Payload
from tinker_ext.clients.losses import LossHandle
from tinker_ext.telemetry import OperationFinished, RequestFailed
from tinker_ext.types import ForwardBackwardOutput

KEY = "tml-canary"
ERROR = ValueError(KEY)
OBJECTS = {
    "the body of a call": Call("asample", "POST", "/", content=KEY.encode()),
    "the headers of a call": Call("asample", "POST", "/", headers=(("X-API-Key", KEY),)),
    "the headers of a reply": Reply(200, {"set-cookie": KEY}, b""),
    "the body of a reply": Reply(200, {}, KEY.encode()),
    "a body on its way": Payload("forward", [KEY.encode()], lambda parts, _: parts, 1),
    "how secrets are written": WrittenForms(*[((KEY, b""),)] * len(attrs.fields(WrittenForms))),
    "a request that failed": RequestFailed("asample", Lane.SAMPLE, 1, 1.0, ERROR),
    "a call that failed": OperationFinished(
        operation="asample", target="m", seconds=1.0, failure=ERROR
    ),
    "a loss": LossHandle("mine", (), "S", graph=KEY),
}


@for_each(OBJECTS.items())
def test_what_is_printed_of_an_object_has_nothing_of_what_it_carries(name, value):
    """M33: a log may print any of them."""
    assert KEY not in repr(value)
    assert type(value).__name__ in repr(value)


def test_what_the_client_counted_is_no_part_of_a_result():
    """M28: one that was made by hand is equal, and prints the same."""
    given, counted = (
        ForwardBackwardOutput("x", [], {"loss:sum": 2.0}, trained=n) for n in (None, 4)
    )
    assert given == counted
    assert repr(given) == repr(counted)
    assert LossHandle("mine", (), "S", graph=1) == LossHandle("mine", (), "S", graph=2)
