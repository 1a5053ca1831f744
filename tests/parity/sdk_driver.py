"""One training run through a Tinker client, printed as JSON, so that clients can be compared.

Runs inside any environment that has the named package: `python sdk_driver.py tinker` for an
official SDK, `python sdk_driver.py tinker_ext` for this one. The server comes from TINKER_BASE_URL.
"""

import importlib
import importlib.util
import json
import os
import sys
import time

STEPS = 20
TEXTS = ["the cat sat on the mat", "a dog ran in the park", "hello world", "to be or not to be"]


def finished(value):
    """Wait for a future of any client; values pass through."""
    return value.result() if hasattr(value, "result") else value


def data(tinker):
    """Four short texts as next-token data; one weight is negative, one is zero."""
    batch = []
    for number, text in enumerate(TEXTS):
        tokens = list(text.encode())
        weights = [1.0] * (len(tokens) - 1)
        weights[0] = 0.0
        weights[1] = -0.25 if number == 1 else 0.5
        batch.append(
            tinker.types.Datum(
                model_input=tinker.types.ModelInput.from_ints(tokens[:-1]),
                loss_fn_inputs={"target_tokens": tokens[1:], "weights": weights},
            )
        )
    return batch


def train(tinker, client, batch):
    """Twenty steps of cross entropy; returns the summed loss of each."""
    losses = []
    for _ in range(STEPS):
        result = client.forward_backward(batch, "cross_entropy")
        step = client.optim_step(tinker.types.AdamParams(learning_rate=1e-2))
        losses.append(result.result().metrics["loss:sum"])
        step.result()
    return losses


def importance(tinker, client, batch):
    """One importance-sampling pass with the model's own logprobs; returns the loss."""
    outputs = client.forward(batch, "cross_entropy").result().loss_fn_outputs
    scored = []
    for datum, output in zip(batch, outputs, strict=True):
        logprobs = output["logprobs"].tolist()
        scored.append(
            tinker.types.Datum(
                model_input=datum.model_input,
                loss_fn_inputs={
                    "target_tokens": datum.loss_fn_inputs["target_tokens"],
                    "logprobs": logprobs,
                    "advantages": [0.5] * len(logprobs),
                },
            )
        )
    losses = {}
    for name in ("importance_sampling", "ppo"):
        losses[name] = client.forward(scored, name).result().metrics["loss:sum"]
    return losses


def custom(tinker, client, batch):
    """A user-written loss on the logprobs, where torch is installed."""
    if importlib.util.find_spec("torch") is None:
        return None

    def loss(data, logprobs):
        total = sum((lp**2).sum() for lp in logprobs)
        return total, {"squares": float(total.detach())}

    result = client.forward_backward_custom(batch, loss).result()
    client.optim_step(tinker.types.AdamParams(learning_rate=1e-3)).result()
    return {k: v for k, v in result.metrics.items() if "loss" in k or "squares" in k}


def sample(tinker, sampler):
    """Seeded samples and prompt logprobs."""
    prompt = tinker.types.ModelInput.from_ints(list(b"the cat"))
    params = tinker.types.SamplingParams(max_tokens=12, seed=7, temperature=0.8)
    reply = finished(sampler.sample(prompt=prompt, num_samples=2, sampling_params=params))
    return {
        "tokens": [list(s.tokens) for s in reply.sequences],
        "logprobs": [list(s.logprobs) for s in reply.sequences],
        "reasons": [str(getattr(s.stop_reason, "value", s.stop_reason)) for s in reply.sequences],
        "prompt": list(finished(sampler.compute_logprobs(prompt))),
    }


def rest(service, run_id, path):
    """What the REST surface says about the run."""
    client = service.create_rest_client()
    run = finished(client.get_training_run(run_id))
    runs = finished(client.list_training_runs(limit=5))
    listed = finished(client.list_checkpoints(run_id))
    finished(client.publish_checkpoint_from_tinker_path(path))
    public = finished(client.list_user_checkpoints(limit=50))
    finished(client.unpublish_checkpoint_from_tinker_path(path))
    return {
        "base_model": run.base_model,
        "lora_rank": run.lora_rank,
        "corrupted": run.corrupted,
        "runs": len(runs.training_runs),
        "checkpoints": sorted(c.checkpoint_id for c in listed.checkpoints),
        "published": [c.tinker_path for c in public.checkpoints if c.public] == [path],
    }


STEPS_OF_A_RUN = (
    "models",
    "info",
    "tokenizer",
    "train",
    "forward",
    "policy",
    "restore",
    "sample",
    "ephemeral",
    "custom",
    "rest",
)
"""Names of the steps; each is a key of the report, or of its `failed` with the reason."""


def main(package):
    """Run every step and print one JSON object; a step that fails is told and the next one runs."""
    started = time.monotonic()
    tinker = importlib.import_module(package)
    importlib.import_module(f"{package}.types")
    service = tinker.ServiceClient()
    client = service.create_lora_training_client(base_model="tinker-ext/tiny", rank=8, seed=3)
    batch = data(tinker)
    paths = {}

    def restore():
        paths["state"] = client.save_state("after-twenty").result().path
        other = service.create_training_client_from_state(paths["state"])
        return other.forward(batch, "cross_entropy").result().metrics["loss:sum"]

    def named():
        path = client.save_weights_for_sampler("sampler").result().path
        return sample(tinker, service.create_sampling_client(model_path=path))

    steps = {
        "models": lambda: [
            m.model_name for m in service.get_server_capabilities().supported_models
        ],
        "info": lambda: client.get_info().model_data.model_name,
        "tokenizer": lambda: client.get_tokenizer().encode("hi"),
        "train": lambda: train(tinker, client, batch),
        "forward": lambda: client.forward(batch, "cross_entropy").result().metrics["loss:sum"],
        "policy": lambda: importance(tinker, client, batch),
        "restore": restore,
        "sample": named,
        "ephemeral": lambda: sample(tinker, client.save_weights_and_get_sampling_client()),
        "custom": lambda: custom(tinker, client, batch),
        "rest": lambda: rest(service, client.get_info().model_id, paths["state"]),
    }
    report = {"version": getattr(tinker, "__version__", "?"), "failed": {}}
    for name in STEPS_OF_A_RUN:
        try:
            report[name] = steps[name]()
        except Exception as error:
            report["failed"][name] = f"{type(error).__name__}: {error}"[:300]
    if hasattr(service, "close"):
        service.close("success")
    report["seconds"] = time.monotonic() - started
    print(json.dumps(report, default=float), flush=True)
    if package == "tinker":
        # Threads of native code of an official SDK now and then abort the interpreter while it
        # ends, after all was said; how they end is not the question. Ours has to end by itself.
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tinker")
