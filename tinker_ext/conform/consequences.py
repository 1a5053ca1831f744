"""What a client does where a server fails a check: the third part after the rule and the fact.

Keys are names of checks or of groups; the closest one holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONSEQUENCES: Final[Mapping[str, str]] = {
    "service.healthz": "`doctor` and load balancers take the server for down.",
    "service.capabilities": "Programs cannot choose a model; each must be named by hand.",
    "service.client_config": "Clients fall back to the first era: JSON bodies, small chunks.",
    "service.dynamic_config": "Clients keep their defaults and do not cancel samples.",
    "service.heartbeat": "Clients take the session for lost and end every call in it.",
    "service.get_info": "The tokenizer is not found; it must be named by hand.",
    "service.finish_session": "Sessions stay open until they expire, with the models in them.",
    "loss": "Training goes on with another objective than the one that was asked for.",
    "loss.sum": "`.loss` raises or is wrong; curves of other servers cannot be compared.",
    "loss.order": "Outputs are attributed to the wrong data: rewards reach the wrong sequence.",
    "gradient": "Training takes other steps than the ones that were asked for.",
    "gradient.chunks": "A batch trains differently once it is large enough to be cut.",
    "gradient.forward": "Evaluation during training changes the model.",
    "gradient.lora_seed": "Runs cannot be repeated.",
    "adam": "Learning rates tuned elsewhere do not carry over.",
    "adam.clears": "Old gradients are applied again with every step.",
    "seq.repeat": "After a lost answer the step counts twice: the client must not send it again, "
    "and ends the run with UnsafeToRetryError instead.",
    "seq.conflict": "Of two requests under one number one is lost without a word.",
    "seq.reorder": "The client waits for each answer before it sends the next chunk.",
    "seq.gap": "The client waits for each answer before it sends the next request.",
    "future.unknown": "A poll for a lost request never ends before the deadline.",
    "future.twice": "A result whose answer was lost on its way is lost: FutureExpiredError.",
    "future.promise": "The client polls in a loop, with back-off; every result comes later.",
    "future.failure": "The reason is shown as a bare status; user errors look like server errors "
    "and are asked for again.",
    "sample": "Samples are not those that were asked for.",
    "sample.seed": "Samples cannot be repeated.",
    "sample.sequence_ids": "Official SDKs from 0.26.0 on cannot sample here; ours numbers them.",
    "score": "Importance ratios of RL losses are wrong from the first step.",
    "score.trained": "RL samples from an old policy.",
    "score.prompt_shape": "The client aligns them by length, and refuses what does not fit.",
    "checkpoint": "A resumed run is not the run that was saved.",
    "error": "A mistake in a request is found late or never.",
    "error.unknown_path": "Missing features cannot be told from broken ones.",
    "error.malformed": "The client takes its own mistake for the server's and asks again.",
    "body": "Clients of that era are refused.",
    "rest": "The REST client and the CLI raise or show something else.",
    "hosted": "A program that relies on this is refused by the hosted service.",
}


def consequence(name: str) -> str:
    """Return what a client does where the named check fails."""
    return CONSEQUENCES.get(name) or CONSEQUENCES[name.partition(".")[0]]
