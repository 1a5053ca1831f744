"""Which tokenizer belongs to a model, where its files are, and a light object that uses them.

Files are looked for on this machine first: a path given by the user, tokenizers shipped with the
package, the directory named by ``TINKER_EXT_TOKENIZERS``, the Hugging Face cache. Only then is the
hub asked. Loading uses the ``tokenizers`` library; transformers only on request.

Example:
    >>> tokenizer_for_model("meta-llama/Llama-3.1-8B").id
    'thinkingmachineslabinc/meta-llama-3-instruct-tokenizer'
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tinker_ext._extras import how_to_install
from tinker_ext.errors import TokenizerError

if TYPE_CHECKING:
    import tokenizers as backend

FILE = "tokenizer.json"
SHIPPED_PREFIX = "tinker-ext/"
SHIPPED = Path(__file__).parent / "mock" / "tokenizer"
CACHED_TOKENIZERS = 32


@attrs.frozen
class TokenizerName:
    """A tokenizer on the hub: repository, pinned revision, and whether it brings its own code."""

    id: str
    revision: str | None = None
    own_code: bool = False


# Models whose tokenizers bring code of their own: the revision that is known to work.
PINNED = {
    "moonshotai/Kimi-K2-Thinking": "612681931a8c906ddb349f8ad0f582cb552189cd",
    "moonshotai/Kimi-K2.5": "4d01dfe0332d63057c186e0b262165819efb6611",
    "moonshotai/Kimi-K2.6": "b5aabbfb20227ed42becbf5541dbffd213942c58",
    "moonshotai/Kimi-K3": "f831ab66814297da540d832a5235f8e904f29d06",
}
LLAMA_3_PREFIX = "meta-llama/Llama-3"
LLAMA_3_TOKENIZER = "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer"
PRIVATE_PREFIXES = ("TML/", "thinkingmachines/")


def tokenizer_for_model(model_name: str, tokenizer_id: str | None = None) -> TokenizerName:
    """Name the tokenizer of a model.

    Args:
        model_name: as the server tells it; a part after ``:`` is a variant and does not count.
        tokenizer_id: what ``get_info`` says, if it says anything; it wins over the name rules.

    Returns:
        Where to look for the tokenizer.

    Raises:
        TokenizerError: the model's tokenizer is not published.
    """
    given = tokenizer_id or model_name
    if Path(given).exists():
        return TokenizerName(given)
    name = given.split(":", 1)[0]
    if name.endswith("-Text-Only") and name.startswith("moonshotai/Kimi-K2.5"):
        name = "moonshotai/Kimi-K2.5"
    if name in PINNED:
        return TokenizerName(name, PINNED[name], own_code=True)
    if tokenizer_id:
        return TokenizerName(name)
    if name.startswith(PRIVATE_PREFIXES):
        raise TokenizerError(
            f"the tokenizer of {name} is not published; pass a tokenizer.json of your own with "
            "tinker_ext.tokenizers.load(PATH)"
        )
    if name.startswith(LLAMA_3_PREFIX):
        return TokenizerName(LLAMA_3_TOKENIZER)
    parts = name.split("/")
    return TokenizerName("/".join(parts[:2]) if len(parts) > 2 else name)


def load(name: str | TokenizerName | Path, *, use_transformers: bool = False) -> Any:
    """Load a tokenizer by path or name; the last 32 are kept.

    Args:
        name: a ``tokenizer.json``, a directory that holds one, or a hub name.
        use_transformers: return a transformers tokenizer instead (transformers must be installed).

    Returns:
        A :class:`Tokenizer`, or transformers' own class when asked for.

    Raises:
        TokenizerError: the files are not on this machine and cannot be fetched; it says which file
            is needed and where to put it.
    """
    wanted = name if isinstance(name, TokenizerName) else TokenizerName(str(name))
    return _load_transformers(wanted) if use_transformers else _load(wanted)


@lru_cache(maxsize=CACHED_TOKENIZERS)
def _load(name: TokenizerName) -> Tokenizer:
    found = local_file(name) or fetch(name)
    return Tokenizer.from_file(found, name.id)


@lru_cache(maxsize=CACHED_TOKENIZERS)
def _load_transformers(name: TokenizerName) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise TokenizerError(
            "use_transformers=True needs transformers: pip install transformers"
        ) from None
    found = local_file(name)
    where = str(found.parent) if found else name.id
    return AutoTokenizer.from_pretrained(
        where, revision=name.revision, trust_remote_code=name.own_code, use_fast=True
    )


def local_file(name: TokenizerName, env: Mapping[str, str] | None = None) -> Path | None:
    """Find a tokenizer's file on this machine, or None."""
    return next((path for path in _places(name, env or os.environ) if path.is_file()), None)


def _places(name: TokenizerName, env: Mapping[str, str]) -> Iterable[Path]:
    given = Path(name.id).expanduser()
    yield given
    yield given / FILE
    if name.id.startswith(SHIPPED_PREFIX):
        yield SHIPPED / FILE
    own = env.get("TINKER_EXT_TOKENIZERS")
    if own:
        yield Path(own) / name.id / FILE
    home = env.get("HF_HOME")
    hub = env.get("HF_HUB_CACHE") or (f"{home}/hub" if home else "~/.cache/huggingface/hub")
    snapshots = Path(hub).expanduser() / f"models--{name.id.replace('/', '--')}" / "snapshots"
    if name.revision:
        yield snapshots / name.revision / FILE
    elif snapshots.is_dir():
        newest_first = sorted(snapshots.iterdir(), key=os.path.getmtime, reverse=True)
        yield from (snapshot / FILE for snapshot in newest_first)


def fetch(name: TokenizerName, env: Mapping[str, str] | None = None) -> Path:
    """Download a tokenizer's file into the Hugging Face cache.

    Raises:
        TokenizerError: the hub is out of reach, or may not be asked (HF_HUB_OFFLINE).
    """
    values = env or os.environ
    reason = "HF_HUB_OFFLINE is set"
    if values.get("HF_HUB_OFFLINE", "").lower() not in {"1", "true", "yes", "on"}:
        try:
            from huggingface_hub import hf_hub_download

            return Path(hf_hub_download(name.id, FILE, revision=name.revision))
        except ImportError:
            reason = f"huggingface-hub is not installed ({how_to_install('hf')})"
        except Exception as error:
            # The hub library raises many unrelated classes; all mean that the file is not here.
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    version = f" at revision {name.revision}" if name.revision else ""
    own_code = ". It comes with code of its own: load it with use_transformers=True"
    raise TokenizerError(
        f"the tokenizer {name.id!r} is not on this machine and was not fetched ({reason}). "
        f"Fetch {FILE} of {name.id}{version} where there is a network, and put it at "
        f"$TINKER_EXT_TOKENIZERS/{name.id}/{FILE}, or pass its path to "
        f"tinker_ext.tokenizers.load(){own_code if name.own_code else ''}"
    )


class Tokenizer:
    """Text to token ids and back, with the calls people use of a transformers tokenizer.

    Example:
        >>> tokenizer = load("tinker-ext/tiny")
        >>> tokenizer.decode(tokenizer.encode("hello"))
        'hello'
    """

    def __init__(
        self, raw: backend.Tokenizer, name: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.raw = raw
        self.name_or_path = name
        self._settings = dict(settings or {})

    @classmethod
    def from_file(cls, path: Path, name: str | None = None) -> Tokenizer:
        """Read a ``tokenizer.json`` and the ``tokenizer_config.json`` beside it, if any."""
        from tokenizers import Tokenizer as Raw

        try:
            raw = Raw.from_file(str(path))
        except Exception as error:
            # The Rust side raises a bare Exception for every fault of the file.
            raise TokenizerError(f"{path} is not a tokenizer file: {error}") from None
        beside = path.with_name("tokenizer_config.json")
        settings = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
        return cls(raw, name or str(path), settings)

    def encode(self, text: str, add_special_tokens: bool = True, **_: Any) -> list[int]:
        """Return the token ids of a text."""
        return list(self.raw.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(
        self, token_ids: int | Sequence[int], skip_special_tokens: bool = False, **_: Any
    ) -> str:
        """Return the text of token ids."""
        ids = [token_ids] if isinstance(token_ids, int) else [int(token) for token in token_ids]
        return str(self.raw.decode(ids, skip_special_tokens=skip_special_tokens))

    def __call__(
        self, text: str, add_special_tokens: bool = True, **_: Any
    ) -> dict[str, list[int]]:
        """Return ids and mask, as code written for transformers expects."""
        ids = self.encode(text, add_special_tokens)
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Return the id of a token, or the ids of several; None for an unknown one."""
        if isinstance(tokens, str):
            return self.raw.token_to_id(tokens)
        return [self.raw.token_to_id(token) for token in tokens]

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """Return the token of an id, or the tokens of several; None for an unknown one."""
        if isinstance(ids, int):
            return self.raw.id_to_token(ids)
        return [self.raw.id_to_token(int(token)) for token in ids]

    def get_vocab(self) -> dict[str, int]:
        """Return every token with its id, added tokens included."""
        return dict(self.raw.get_vocab(with_added_tokens=True))

    @property
    def vocab_size(self) -> int:
        """Number of tokens without the added ones."""
        return int(self.raw.get_vocab_size(with_added_tokens=False))

    def __len__(self) -> int:
        return int(self.raw.get_vocab_size(with_added_tokens=True))

    def _special(self, role: str) -> str | None:
        value = self._settings.get(f"{role}_token")
        return value.get("content") if isinstance(value, dict) else value

    @property
    def bos_token(self) -> str | None:
        """The token that begins a text, if the tokenizer has one."""
        return self._special("bos")

    @property
    def eos_token(self) -> str | None:
        """The token that ends a text, if the tokenizer has one."""
        return self._special("eos")

    @property
    def pad_token(self) -> str | None:
        """The token that fills up a batch, if the tokenizer has one."""
        return self._special("pad")

    def _special_id(self, token: str | None) -> int | None:
        return None if token is None else self.raw.token_to_id(token)

    @property
    def bos_token_id(self) -> int | None:
        """The id of `bos_token`."""
        return self._special_id(self.bos_token)

    @property
    def eos_token_id(self) -> int | None:
        """The id of `eos_token`."""
        return self._special_id(self.eos_token)

    @property
    def pad_token_id(self) -> int | None:
        """The id of `pad_token`."""
        return self._special_id(self.pad_token)

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that turns messages into one text, if the tokenizer has one."""
        return self._settings.get("chat_template")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        *,
        tokenize: bool = True,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str | list[int]:
        """Render messages with the tokenizer's own template.

        Raises:
            TokenizerError: the tokenizer has no template, or jinja2 is not installed.
        """
        if not self.chat_template:
            raise TokenizerError(f"the tokenizer {self.name_or_path} has no chat template")
        try:
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise TokenizerError(f"chat templates need jinja2: {how_to_install('chat')}") from None
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        text = environment.from_string(self.chat_template).render(
            messages=conversation,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.bos_token,
            eos_token=self.eos_token,
            **variables,
        )
        return self.encode(text, add_special_tokens=False) if tokenize else text

    def __repr__(self) -> str:
        return f"Tokenizer({self.name_or_path!r}, {len(self)} tokens)"
