"""A bare HTTP caller of the embedded server, for tests that look at the wire itself."""

import httpx

from tinker_ext.mock import Settings, create_app

TINY = "tinker-ext/tiny"


def datum(text="hello world", weights=None):
    """Next-token data of a text as JSON."""
    tokens = list(text.encode())
    weights = weights if weights is not None else [1.0] * (len(tokens) - 1)
    return {
        "model_input": {"chunks": [{"tokens": tokens[:-1]}]},
        "loss_fn_inputs": {
            "target_tokens": {"data": tokens[1:], "dtype": "int64"},
            "weights": {"data": weights, "dtype": "float32"},
        },
    }


class Raw:
    """Posts bodies and polls results; `async with Raw(app=…)` or `Raw(url=…)`."""

    def __init__(self, app=None, url="http://embedded", settings=None, headers=None):
        if app is None and url == "http://embedded":
            app = create_app(settings or Settings(inline_engine=True))
        self.app = app
        transport = httpx.ASGITransport(app) if app is not None else None
        self.http = httpx.AsyncClient(
            base_url=url,
            transport=transport,
            headers={"x-api-key": "tml-test", **(headers or {})},
            timeout=300,
        )
        self.seq = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.http.aclose()
        if self.app is not None:
            self.app.close()

    async def send(self, method, path, body=None, **options):
        """Send a request and return the reply, whatever its status."""
        if body is not None:
            options["json"] = body
        return await self.http.request(method, f"/api/v1/{path}", **options)

    async def post(self, path, /, **body):
        """Post a body and return the JSON of a successful reply."""
        reply = await self.send("POST", path, body)
        assert reply.status_code == 200, f"{path}: {reply.status_code} {reply.text}"
        return reply.json()

    async def result(self, ticket):
        """Poll until there is a result."""
        while True:
            reply = await self.send("POST", "retrieve_future", {"request_id": ticket["request_id"]})
            if reply.status_code != 408:
                assert reply.status_code == 200, reply.text
                return reply.json()

    async def session(self):
        """Open a session."""
        body = {"tags": [], "user_metadata": {}, "sdk_version": "test"}
        return (await self.post("create_session", **body))["session_id"]

    async def model(self, session=None, number=0, rank=4, base=TINY):
        """Create a model and return its id; seq ids start again at 1."""
        session = session or await self.session()
        ticket = await self.post(
            "create_model",
            session_id=session,
            model_seq_id=number,
            base_model=base,
            lora_config={"rank": rank, "seed": 1},
        )
        self.seq = 0
        return (await self.result(ticket))["model_id"]

    def next_seq(self):
        """Return the next seq_id."""
        self.seq += 1
        return self.seq

    def training_body(self, model_id, text="hello world", seq=None):
        """Return a forward_backward body."""
        return {
            "model_id": model_id,
            "seq_id": seq if seq is not None else self.next_seq(),
            "forward_backward_input": {"data": [datum(text)], "loss_fn": "cross_entropy"},
        }

    async def train(self, model_id, text="hello world"):
        """One forward_backward and one optim_step; returns the loss."""
        first = await self.post("forward_backward", **self.training_body(model_id, text))
        second = await self.post(
            "optim_step",
            model_id=model_id,
            seq_id=self.next_seq(),
            adam_params={"learning_rate": 1e-2},
        )
        loss = (await self.result(first))["metrics"]["loss:sum"]
        await self.result(second)
        return loss

    async def loss(self, model_id, text="hello world"):
        """The loss now, without a gradient."""
        body = self.training_body(model_id, text)
        body["forward_input"] = body.pop("forward_backward_input")
        output = await self.result(await self.post("forward", **body))
        return output["metrics"]["loss:sum"]

    async def save(self, model_id, operation="save_weights", **body):
        """Save and return the path."""
        ticket = await self.post(operation, model_id=model_id, seq_id=self.next_seq(), **body)
        result = await self.result(ticket)
        assert "error" not in result, result
        return result["path"]
