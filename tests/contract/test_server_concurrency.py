"""M40: eight clients training and two hundred samples in flight at once."""

import asyncio
import json

from raw_tinker import Raw

from tinker_ext.mock import Server, Settings

TRAINERS, STEPS, SAMPLES = 8, 3, 200


async def train(url):
    async with Raw(url=url) as raw:
        model = await raw.model()
        return model, [await raw.train(model) for _ in range(STEPS)]


class Line:
    """One keep-alive connection; a client library would be slower than the server here."""

    async def open(self, url):
        host, port = url.removeprefix("http://").split(":")
        self.reader, self.writer = await asyncio.open_connection(host, int(port))
        return self

    async def post(self, path, body):
        text = json.dumps(body).encode()
        head = f"POST /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\n"
        head += f"content-length: {len(text)}\r\n\r\n"
        self.writer.write(head.encode() + text)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(x.split(":")[1]) for x in lines if x.startswith("content-length"))
        reply = json.loads(await self.reader.readexactly(length))
        if path == "retrieve_future" and " 408 " in lines[0]:  # not yet: ask again
            return await self.post(path, body)
        assert " 200 " in lines[0], lines[0]
        return reply


async def sample(url, sampler, number):
    line = await Line().open(url)
    body = {
        "sampling_session_id": sampler,
        "seq_id": number,
        "prompt": {"chunks": [{"tokens": [104, 105]}]},
        "sampling_params": {"max_tokens": 3, "seed": number % 7},
    }
    ticket = await line.post("asample", body)
    result = await line.post("retrieve_future", {"request_id": ticket["request_id"]})
    line.writer.close()
    return number % 7, result["sequences"]


async def samples(url):
    async with Raw(url=url) as raw:
        session = await raw.session()
        opened = await raw.post(
            "create_sampling_session",
            session_id=session,
            sampling_session_seq_id=0,
            base_model="tinker-ext/tiny",
        )
    sampler = opened["sampling_session_id"]
    return await asyncio.gather(*(sample(url, sampler, n) for n in range(SAMPLES)))


def test_eight_trainers_and_two_hundred_samples():
    """M40: every run learns alike, every seed draws alike, every effect is logged once in order."""

    async def scenario(url):
        return await asyncio.gather(samples(url), *(train(url) for _ in range(TRAINERS)))

    with Server(Settings()) as server:
        drawn, *runs = asyncio.run(scenario(server.url))
        assert len(drawn) == SAMPLES
        by_seed = {}
        for seed, sequences in drawn:
            assert by_seed.setdefault(seed, sequences) == sequences
        losses = [run for _, run in runs]
        assert all(run == losses[0] for run in losses)
        for model, _ in runs:
            effects = server.log.training(model)
            assert [e.seq for e in effects] == list(range(1, 2 * STEPS + 1))
        assert server.log.violations == []
