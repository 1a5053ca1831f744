"""Questions about behaviour, asked in the same words of the official SDK and of ours.

`python questions.py tinker` (or `tinker_ext`, which asks the stand-in) prints the answers as JSON.
The environment names the server. An answer is what a program sees: a value, or the error's classes.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

QUESTIONS: dict[str, Callable[[], Any]] = {}


def question(function: Callable[[], Any]) -> Callable[[], Any]:
    """Ask this of both packages; its docstring is the question."""
    QUESTIONS[function.__name__] = function
    return function


def answer(ask: Callable[[], Any]) -> Any:
    """What a program sees: warnings, and the value or the built-in classes of the error."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            value: Any = ask()
        except Exception as error:
            known = (ValueError, TypeError, KeyError, AttributeError, RuntimeError, AssertionError)
            value = {"raises": sorted(cls.__name__ for cls in known if isinstance(error, cls))}
    told = [w.category.__name__ for w in seen if "tinker" in w.filename or __file__ == w.filename]
    return {"value": value, "warns": sorted(set(told))}


def _input() -> Any:
    import tinker

    return tinker.ModelInput.from_ints([1, 2, 3])


@question
def status_of_a_class() -> Any:
    """F54"""
    import tinker

    return [tinker.RateLimitError.status_code, tinker.BillingError.status_code]


@question
def sampler_is_an_observer() -> Any:
    """F54"""
    import tinker
    from tinker.lib.queue_state_logger import QueueStateObserver

    return issubclass(tinker.SamplingClient, QueueStateObserver)


@question
def optimizer_families() -> Any:
    """F54"""
    import tinker
    from tinker.types.optimizer import OptimizerConfigBase, OptimParamsBase

    return [
        issubclass(tinker.DimuonOptimizerConfig, OptimizerConfigBase),
        issubclass(tinker.AdamOptimizerConfig, OptimizerConfigBase),
        issubclass(tinker.DimuonParams, OptimParamsBase),
    ]


@question
def console_pages() -> Any:
    """F53"""
    from tinker.lib import console_urls

    return [
        console_urls.checkpoint_console_url("r:train:0", "weights/1"),
        console_urls.new_api_key_console_url("my key"),
        console_urls.training_run_console_url("r:train:0"),
        console_urls.session_console_url("s"),
        console_urls.sessions_console_url(),
        console_urls.api_key_console_url("a/b"),
        console_urls.checkpoint_playground_url("tinker://r/x"),
    ]


@question
def private_names() -> Any:
    """F53"""
    from tinker._types import NoneType
    from tinker._version import __title__, __version__

    return [__title__, __version__, NoneType is type(None)]


@question
def a_span_without_a_sequence() -> Any:
    """F55"""
    import tinker

    return tinker.PromptProvenanceSpan(sequence_id="", length=1).length


@question
def a_span_that_is_not_one() -> Any:
    """F51"""
    import tinker

    return repr(tinker.Datum(_input(), {}, loss_fn_input_spans=[("prompt", 3)]))


@question
def a_fraction_as_padding() -> Any:
    """F52"""
    import tinker

    tensor = tinker.TensorData(
        data=[1.0],
        dtype="float32",
        shape=[1, 2],
        sparse_crow_indices=[0, 1],
        sparse_col_indices=[0],
    )
    return tensor.to_numpy(pad_value=0.5).tolist()


@question
def unknown_keyword_of_a_service() -> Any:
    """F49"""
    import tinker

    tinker.ServiceClient(frobnicate=1)
    return "made"


@question
def rest_client_of_a_service() -> Any:
    """F55"""
    import tinker

    service = tinker.ServiceClient()
    return type(service.create_rest_client()).__name__


@question
def nothing_to_combine() -> Any:
    """F56"""
    from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results

    made = combine_fwd_bwd_output_results([])
    return [list(made.loss_fn_outputs), dict(made.metrics)]


@question
def a_writable_array_changed_later() -> Any:
    """F56"""
    import numpy as np
    import tinker

    array = np.array([1.0, 2.0], dtype=np.float32)
    datum = tinker.Datum(_input(), {"weights": array})
    array[0] = 9.0
    return datum.loss_fn_inputs["weights"].tolist()


@question
def unordered_hashes_of_chunks() -> Any:
    """F56"""
    from tinker.lib.chunked_fwdbwd_helpers import combine_fwd_bwd_output_results
    from tinker.types import ForwardBackwardOutput

    parts = [
        ForwardBackwardOutput(
            loss_fn_output_type="x", loss_fn_outputs=[{}], metrics={"a:hash_unordered": 3.0}
        )
        for _ in range(2)
    ]
    return "a:hash_unordered" in combine_fwd_bwd_output_results(parts).metrics


@question
def a_negative_temperature() -> Any:
    """M30"""
    import tinker

    return tinker.SamplingParams(temperature=-1).temperature


@question
def an_unknown_field() -> Any:
    """M30"""
    import tinker

    tinker.AdamParams(lr=3)
    return "made"


@question
def a_field_assigned() -> Any:
    """M30"""
    import tinker

    params = tinker.SamplingParams()
    params.max_tokens = 3
    return "assigned"


@question
def neither_key_nor_url() -> Any:
    """M40"""
    import os

    import tinker

    os.environ.pop("TINKER_API_KEY", None)
    os.environ.pop("TINKER_BASE_URL", None)
    try:
        return type(tinker.ServiceClient().get_server_capabilities()).__name__
    except tinker.TinkerError:
        return "TinkerError"


def main(package: str) -> None:
    """Print every answer of one package."""
    if package == "tinker_ext":
        from tinker_ext import compat

        compat.install()
        import tinker  # noqa: F401 - what the questions import is the stand-in from here on
    print(json.dumps({name: answer(ask) for name, ask in QUESTIONS.items()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
