"""ClientConfigResponse. Generated file: run `nox -s regenerate` instead of editing it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from ..base import Field, Model
from ..codec import (
    BOOLEAN,
    INTEGER,
    TEXT,
)

__all__ = ["ClientConfigResponse"]


@frozen(kw_only=True, getstate_setstate=False)
class ClientConfigResponse(Model):
    """Settings the server hands to a starting client. Every field has a default, so an empty
    object is a full answer. Era 0.36.0 only.

    Attributes:
        pjwt_auth_enabled: Whether the credential must be exchanged for a short-lived token first.
        credential_default_source: Kind of credential to look for when the user named none.
        sample_dispatch_bytes_semaphore_size: Bytes of sampling requests allowed in flight.
        inflight_response_bytes_semaphore_size: Bytes of results a client may have in flight at once.
        parallel_fwdbwd_chunks: Whether the chunks of one training batch may be posted side by side.
        proto_compress_fwdbwd: Whether binary training bodies should be compressed with zstd.
        fwdbwd_max_chunk_len: Most examples in one training chunk.
        fwdbwd_max_chunk_bytes_count: Estimated size, in bytes, at which a training chunk is closed.
        fwdbwd_dispatch_bytes_semaphore_size: Bytes of training requests allowed in flight.
        billing_exception_max_pause_duration_sec: Seconds a client waits at most while the account is on a billing pause.
        sample_no_retries: Whether failed samples must not be submitted again.
        sample_enable_stuck_detection: Whether the client should watch for samples that make no progress.
        sample_max_concurrent_requests: Most samples a client keeps in flight.
        use_pyqwest_transport: Which of two HTTP stacks the official client takes; of no meaning to other clients.
        create_model_via_load_weights: Whether restoring a run creates the model through load_weights alone.
        sample_use_retrieve_futures: Whether samples should be awaited through the batched endpoint.
        custom_loss_server_side: Whether custom losses may be uploaded as graphs.
        sample_join_sampling_session: Whether copies of a sampler in other processes should join its session.
    """

    pjwt_auth_enabled: bool = field(default=False)
    credential_default_source: str = field(default="api_key", repr=False)
    sample_dispatch_bytes_semaphore_size: int = field(default=10485760)
    inflight_response_bytes_semaphore_size: int = field(default=52428800)
    parallel_fwdbwd_chunks: bool = field(default=True)
    proto_compress_fwdbwd: bool = field(default=False)
    fwdbwd_max_chunk_len: int = field(default=1024)
    fwdbwd_max_chunk_bytes_count: int = field(default=5000000)
    fwdbwd_dispatch_bytes_semaphore_size: int = field(default=50000000)
    billing_exception_max_pause_duration_sec: int = field(default=3600)
    sample_no_retries: bool = field(default=False)
    sample_enable_stuck_detection: bool = field(default=True)
    sample_max_concurrent_requests: int = field(default=2000)
    use_pyqwest_transport: bool = field(default=True)
    create_model_via_load_weights: bool = field(default=False)
    sample_use_retrieve_futures: bool = field(default=False)
    custom_loss_server_side: bool = field(default=False)
    sample_join_sampling_session: bool = field(default=False)
    additional_properties: dict[str, Any] = field(factory=dict, init=False, hash=False, repr=False)
    _wire: Any = field(default=None, init=False, repr=False, eq=False)

    @classmethod
    def _fields(cls) -> tuple[Field, ...]:

        return (
            Field("pjwt_auth_enabled", "pjwt_auth_enabled", BOOLEAN, default=False),
            Field(
                "credential_default_source", "credential_default_source", TEXT, default="api_key"
            ),
            Field(
                "sample_dispatch_bytes_semaphore_size",
                "sample_dispatch_bytes_semaphore_size",
                INTEGER,
                default=10485760,
            ),
            Field(
                "inflight_response_bytes_semaphore_size",
                "inflight_response_bytes_semaphore_size",
                INTEGER,
                default=52428800,
            ),
            Field("parallel_fwdbwd_chunks", "parallel_fwdbwd_chunks", BOOLEAN, default=True),
            Field("proto_compress_fwdbwd", "proto_compress_fwdbwd", BOOLEAN, default=False),
            Field("fwdbwd_max_chunk_len", "fwdbwd_max_chunk_len", INTEGER, default=1024),
            Field(
                "fwdbwd_max_chunk_bytes_count",
                "fwdbwd_max_chunk_bytes_count",
                INTEGER,
                default=5000000,
            ),
            Field(
                "fwdbwd_dispatch_bytes_semaphore_size",
                "fwdbwd_dispatch_bytes_semaphore_size",
                INTEGER,
                default=50000000,
            ),
            Field(
                "billing_exception_max_pause_duration_sec",
                "billing_exception_max_pause_duration_sec",
                INTEGER,
                default=3600,
            ),
            Field("sample_no_retries", "sample_no_retries", BOOLEAN, default=False),
            Field(
                "sample_enable_stuck_detection",
                "sample_enable_stuck_detection",
                BOOLEAN,
                default=True,
            ),
            Field(
                "sample_max_concurrent_requests",
                "sample_max_concurrent_requests",
                INTEGER,
                default=2000,
            ),
            Field("use_pyqwest_transport", "use_pyqwest_transport", BOOLEAN, default=True),
            Field(
                "create_model_via_load_weights",
                "create_model_via_load_weights",
                BOOLEAN,
                default=False,
            ),
            Field(
                "sample_use_retrieve_futures", "sample_use_retrieve_futures", BOOLEAN, default=False
            ),
            Field("custom_loss_server_side", "custom_loss_server_side", BOOLEAN, default=False),
            Field(
                "sample_join_sampling_session",
                "sample_join_sampling_session",
                BOOLEAN,
                default=False,
            ),
        )
