"""What a sample call gets back: the promise of a result, and the result put right."""

from __future__ import annotations

import attrs
import numpy as np
import orjson

from tinker_ext._reply_parts import ReplyParts
from tinker_ext._transport import Reply
from tinker_ext._wire.requests import PLAIN, SampleOptions
from tinker_ext.core.outcome import broken
from tinker_ext.errors import APIResponseValidationError
from tinker_ext.types.model_input import ModelInput
from tinker_ext.types.sampling import SampleResponse


def read_promise(reply: Reply) -> tuple[str, list[str] | None]:
    """Request id and sequence ids of an accepted sample; anything else is a typed error."""
    try:
        body = orjson.loads(reply.content)
        request_id = body["request_id"]
        sequence_ids = body.get("sample_sequence_ids")
        if not isinstance(request_id, str) or not request_id:
            raise ValueError(f"request_id is {request_id!r}")
        if sequence_ids is not None and not all(isinstance(item, str) for item in sequence_ids):
            raise ValueError("sample_sequence_ids are not strings")
        return request_id, sequence_ids
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise broken(
            reply.status, reply.headers, reply.content, "UntypedAPIFuture", None, error
        ) from error


def finished(
    value: SampleResponse,
    prompt: ModelInput,
    num_samples: int,
    options: SampleOptions,
    sequence_ids: list[str] | None,
) -> SampleResponse:
    """Give the sequences their ids, and prompt logprobs their place for the first token.

    Raises:
        APIResponseValidationError: Not as many sequences or prompt logprobs as asked for.
    """
    count = len(value.sequences)
    # Who asks for prompt logprobs may want nothing else, and some servers then sample nothing.
    if count != num_samples and (count or not options.prompt_logprobs):
        raise _unfit(f"The server gave {count} sequences where {num_samples} were asked for.")
    if sequence_ids is not None and len(sequence_ids) == len(value.sequences):
        for sequence, sequence_id in zip(value.sequences, sequence_ids, strict=True):
            # Just decoded and not seen by anybody else: cheaper than a copy per sequence.
            object.__setattr__(sequence, "sequence_id", sequence_id)
    logprobs = value.prompt_logprobs_np
    if logprobs is not None and options is not PLAIN:
        wants_all = options.prompt_logprobs_last_n is None
        length = _text_length(prompt)
        if wants_all and length >= 0 and len(logprobs) not in (length, length - 1):
            raise _unfit(
                f"The server gave {len(logprobs)} logprobs for a prompt of {length} tokens."
            )
        if wants_all and len(logprobs) == length - 1:
            # Some servers leave the first token out, which has no logprob.
            padded = np.empty(len(logprobs) + 1, np.float32)
            padded[0] = np.nan
            padded[1:] = logprobs
            return attrs.evolve(value, prompt_logprobs_np=padded)
    return value


def _text_length(prompt: ModelInput) -> int:
    try:
        return prompt.length
    except ValueError:
        return -1


def _unfit(why: str) -> APIResponseValidationError:
    return APIResponseValidationError(ReplyParts(200, {}, b"", None), None, why)
