"""Health, capabilities, client configuration, credentials and telemetry."""

from __future__ import annotations

import base64
import hmac
from typing import Any

import orjson

from tinker_ext.mock.base_models import CONTEXT
from tinker_ext.mock.messages import HttpError, Request, Response
from tinker_ext.mock.routing import endpoint
from tinker_ext.mock.state.world import World

USER = "tml:user:embedded"
ORGANISATION = "embedded"
EMAIL = "user@embedded.invalid"


@endpoint("GET", "healthz")
def healthz(world: World, request: Request) -> Any:
    """Say that the server is up."""
    return {"status": "ok"}


@endpoint("GET", "get_server_capabilities")
def capabilities(world: World, request: Request) -> Any:
    """List the served base models."""
    if world.bug("capability_missing"):
        return {"supported_models": []}
    old = world.settings.era == "0.4.1"
    extra = {} if old else {"max_context_length": CONTEXT, "trainable": True, "sampleable": True}
    return {"supported_models": [{"model_name": name, **extra} for name in world.base_models]}


@endpoint("POST", "client/config")
def client_config(world: World, request: Request) -> Any:
    """Return the flags of a new client; the settings override them."""
    settings = world.settings
    # Not in the official reply: tells our client which repeats are safe here.
    declared = {"seq_ids": settings.seq} if settings.declared else {}
    return {
        "pjwt_auth_enabled": False,
        "parallel_fwdbwd_chunks": True,
        **declared,
        "proto_compress_fwdbwd": False,
        "fwdbwd_max_chunk_len": 1024,
        "fwdbwd_max_chunk_bytes_count": 5_000_000,
        **settings.client_config,
    }


@endpoint("POST", "client/dynamic_config")
def dynamic_config(world: World, request: Request) -> Any:
    """Return the flags a client refreshes now and then."""
    return {"refresh_interval_sec": 300, **world.settings.dynamic_config}


@endpoint("POST", "auth/token")
def auth_token(world: World, request: Request) -> Any:
    """Exchange a key for a JWT."""
    now = int(world.clock.unix())
    claims = {
        "iss": "passport-embedded",
        "sub": USER,
        "org_id": ORGANISATION,
        "email": EMAIL,
        "iat": now,
        "exp": now + int(world.settings.token_lifetime),
    }
    return {"jwt": sign(claims, world.secret)}


@endpoint("GET", "auth/apikey/me")
def api_key(world: World, request: Request) -> Any:
    """Describe the key of the caller."""
    _key(request)
    return {
        "key_id": 1,
        "name": "embedded",
        "note": "a key of the embedded server",
        "details": {
            "org_details": {"name": ORGANISATION},
            "user_details": {"email": EMAIL},
        },
    }


@endpoint("DELETE", "auth/apikey/me")
def revoke_api_key(world: World, request: Request) -> Any:
    """Accept that a key is given back; the embedded server keeps letting it in."""
    _key(request)
    return Response.empty()


@endpoint("POST", "telemetry")
def telemetry(world: World, request: Request) -> Any:
    """Keep telemetry for tests to look at."""
    world.telemetry.append(request.json)
    del world.telemetry[:-1000]
    return {"status": "accepted"}


def _key(request: Request) -> str:
    key = request.headers.get("x-api-key", "")
    if not key:
        raise HttpError(401, "no API key: send it in the X-API-Key header")
    return key


def _part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _signature(text: str, secret: bytes) -> str:
    return _part(hmac.digest(secret, b"jwt/" + text.encode(), "sha256"))


def sign(claims: dict[str, Any], secret: bytes) -> str:
    """Write an HS256 JWT."""
    head = _part(orjson.dumps({"alg": "HS256", "typ": "JWT"}))
    text = f"{head}.{_part(orjson.dumps(claims))}"
    return f"{text}.{_signature(text, secret)}"


def token_is_good(token: str, secret: bytes, now: float) -> bool:
    """Tell whether a JWT was signed here and has not expired."""
    text, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(text, secret).encode()):
        return False
    payload = text.partition(".")[2]
    claims = orjson.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return bool(claims["exp"] > now)
