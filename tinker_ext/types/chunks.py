"""The pieces a `ModelInput` is made of: text tokens, images, image pointers and audio."""

from __future__ import annotations

import base64
import binascii
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, cast, get_args

import attrs
import numpy as np
import numpy.typing as npt
from tinker_api import models

from tinker_ext import tensors
from tinker_ext.errors import InvalidInputError
from tinker_ext.types.records import Record, follow

Tokens: TypeAlias = Sequence[int] | npt.NDArray[Any]
if TYPE_CHECKING:
    Packed: TypeAlias = array[int] | npt.NDArray[np.uint32 | np.int64]
else:
    Packed = array | np.ndarray  # an array takes no argument before Python 3.12


_UINT32 = np.dtype(np.uint32)
_TOP_BYTES = slice(3 if sys.byteorder == "little" else 0, None, 4)
_SHORT = 1024
_LARGEST = 2**31 - 1


def _pack(value: Iterable[int] | npt.NDArray[Any]) -> Packed:
    """Token ids in the four bytes they travel in, where they fit."""
    try:
        if type(value) is list and value and type(value[0]) is int:
            packed = array("I")
            packed.fromlist(value)  # refuses what is not a whole number from 0 to 2³² - 1
            return packed
    except (OverflowError, TypeError):
        pass  # a look by numpy finds the words for what is wrong
    tokens = tensors.to_array(value, "int64", what="tokens")
    if tokens.ndim != 1:
        raise InvalidInputError(f"tokens: expected one dimension, got shape {tokens.shape}.")
    ids: npt.NDArray[np.uint32 | np.int64] = tokens.astype(np.uint32)
    if not np.array_equal(ids, tokens):
        ids = tokens
    ids.setflags(write=False)
    return ids


def decode_bytes(value: bytes | str, what: str) -> bytes:
    """Bytes as they are; a string is read as standard base64."""
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidInputError(f"{what}: not valid base64 ({error}).") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InvalidInputError(f"{what}: expected bytes, got {type(value).__name__}.")


def _image_bytes(value: bytes | str) -> bytes:
    return decode_bytes(value, "ImageChunk.data")


def _dmel_bytes(value: bytes | str) -> bytes:
    return decode_bytes(value, "DmelChunk.dmel")


def _size(value: bytes) -> str:
    return f"<{len(value)} bytes>"


def encode_bytes(value: bytes) -> str:
    """Standard base64 with padding, the JSON form of bytes."""
    return base64.b64encode(value).decode("ascii")


@attrs.frozen(init=False, eq=False, repr=False)
class EncodedTextChunk:
    """Text as token ids.

    The ids are copied; a numpy array or torch tensor of integers is accepted too.

    Args:
        tokens: The token ids.
        type: Always `encoded_text`.

    Raises:
        InvalidInputError: Something else than whole numbers.

    Example:
        >>> chunk = EncodedTextChunk(tokens=[1, 2, 3])
        >>> chunk.tokens, chunk.length
        ([1, 2, 3], 3)
    """

    _packed: Packed = attrs.field(alias="tokens")
    type: Literal["encoded_text"]
    _list: list[int] | None = attrs.field(init=False)

    def __init__(self, *, tokens: Tokens, type: Literal["encoded_text"] = "encoded_text") -> None:
        if type != "encoded_text":
            raise InvalidInputError(f"type must be 'encoded_text', not {type!r}.")
        _put_packed(self, _pack(tokens))
        _put_type(self, "encoded_text")
        _put_list(self, None)

    def __getstate__(self) -> dict[str, Any]:
        return {"array": self.array, "type": self.type, "_list": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(tokens=state["array"], type=state["type"])  # type: ignore[misc]

    @property
    def ids(self) -> npt.NDArray[np.uint32 | np.int64]:
        """The token ids as a read-only array: uint32, or int64 when one does not fit."""
        packed = self._packed
        if isinstance(packed, array):
            # Not kept: a view is several times as large as a short prompt, of which thousands wait.
            packed = np.frombuffer(packed, _UINT32)
            packed.setflags(False)  # type: ignore[call-arg]  # a name takes longer than the rest
        return packed

    @property
    def buffer(self) -> memoryview:
        """The memory of `ids`, read-only."""
        packed: Any = self._packed
        return memoryview(packed).toreadonly()

    @property
    def array(self) -> npt.NDArray[np.int64]:
        """The token ids as a new read-only array of int64."""
        array = self.ids.astype(np.int64)
        array.flags.writeable = False
        return array

    @property
    def tokens(self) -> list[int]:
        """The token ids as a list."""
        if self._list is None:
            _put_list(self, self.ids.tolist())
        return cast("list[int]", self._list)

    @property
    def is_small(self) -> bool:
        """Whether all ids are below 2³¹, so that every wire can carry them."""
        packed = self._packed
        if isinstance(packed, array):
            if len(packed) <= _SHORT:
                # The highest byte of every id must be below 0x80. For a short chunk that takes a
                # tenth of the time of numpy's maximum, and every sample has one.
                return packed.tobytes()[_TOP_BYTES].isascii()
            packed = np.frombuffer(packed, _UINT32)  # argmax copies what is read-only, as `ids` are
        elif packed.dtype != _UINT32 or not packed.size:
            return not packed.size
        return packed.item(packed.argmax()) <= _LARGEST

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self._packed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EncodedTextChunk):
            return NotImplemented
        return np.array_equal(self.ids, other.ids)

    def __hash__(self) -> int:
        return hash((self.type, self.ids.tobytes()))

    def __repr__(self) -> str:
        return f"EncodedTextChunk(tokens={self.tokens})"


# A frozen class takes its values through its slots; object.__setattr__ looks each of them up.
_put_packed, _put_type, _put_list = (
    EncodedTextChunk.__dict__[field.name].__set__ for field in attrs.fields(EncodedTextChunk)
)


_new = object.__new__


def text_chunk(tokens: Tokens) -> EncodedTextChunk:
    """The same as `EncodedTextChunk(tokens=tokens)`, quicker: every datum has one."""
    chunk = _new(EncodedTextChunk)
    _put_packed(chunk, _pack(tokens))
    _put_type(chunk, "encoded_text")
    _put_list(chunk, None)
    return chunk


_AMOUNT = {"least": 0}


class _Image:
    """What every image has, wherever its bytes are."""

    __slots__ = ()
    expected_tokens: int | None
    tokens: int | None

    @property
    def length(self) -> int:
        """Number of tokens the image stands for.

        Raises:
            InvalidInputError: Neither `expected_tokens` nor `tokens` is set.
        """
        declared = declared_tokens(self)
        if declared is None:
            raise InvalidInputError(
                f"{type(self).__name__}: the length is unknown until expected_tokens is set."
            )
        return declared


def declared_tokens(image: _Image) -> int | None:
    """How many tokens the user says an image takes, whichever era's field it was put in."""
    return image.tokens if image.expected_tokens is None else image.expected_tokens


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class ImageChunk(_Image, Record, models.ImageChunk):
    """A PNG or JPEG image.

    Servers of the first era want `height`, `width` and `tokens`; later ones want at most
    `expected_tokens`. Set what your server needs; unset fields are not sent.
    """

    data: bytes = attrs.field(  # type: ignore[assignment]
        converter=_image_bytes, repr=_size
    )
    expected_tokens: int | None = attrs.field(default=None, metadata=_AMOUNT)
    height: int | None = attrs.field(default=None, metadata=_AMOUNT)
    width: int | None = attrs.field(default=None, metadata=_AMOUNT)
    tokens: int | None = attrs.field(default=None, metadata=_AMOUNT)

    def to_dict(self) -> dict[str, Any]:
        """The object as it is sent."""
        return super().to_dict() | {"data": encode_bytes(self.data)}

    def serialize_data(self, value: bytes) -> str:
        """The JSON form of image bytes."""
        return encode_bytes(value)

    @classmethod
    def validate_data(cls, value: bytes | str) -> bytes:
        """Image bytes from bytes or base64 text."""
        return decode_bytes(value, "ImageChunk.data")


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class ImageAssetPointerChunk(_Image, Record, models.ImageAssetPointerChunk):
    """An image the server fetches from `location`; usable in sampling, not in training."""

    expected_tokens: int | None = attrs.field(default=None, metadata=_AMOUNT)
    height: int | None = attrs.field(default=None, metadata=_AMOUNT)
    width: int | None = attrs.field(default=None, metadata=_AMOUNT)
    tokens: int | None = attrs.field(default=None, metadata=_AMOUNT)


@attrs.frozen(kw_only=True, getstate_setstate=False, field_transformer=follow)
class DmelChunk(Record, models.DmelChunk):
    """Audio as a serialized tensor container of mel features."""

    dmel: bytes = attrs.field(  # type: ignore[assignment]
        converter=_dmel_bytes, repr=_size
    )

    def to_dict(self) -> dict[str, Any]:
        """The object as it is sent."""
        return super().to_dict() | {"dmel": encode_bytes(self.dmel)}

    @property
    def length(self) -> int:
        """Number of frames: dimension 0 of the container.

        Raises:
            InvalidInputError: The bytes are not such a container.
        """
        return _container_rows(self.dmel)

    def serialize_dmel(self, value: bytes) -> str:
        """The JSON form of the container bytes."""
        return encode_bytes(value)

    @classmethod
    def validate_dmel(cls, value: bytes | str) -> bytes:
        """Container bytes from bytes or base64 text."""
        return decode_bytes(value, "DmelChunk.dmel")


_CONTAINER_MARKER = 254
_CONTAINER_DTYPES = 8


def _container_rows(content: bytes) -> int:
    """Read dimension 0: optional marker byte, dtype byte, then LEB128 ndim and dimensions."""
    at = 1 if content[:1] == bytes([_CONTAINER_MARKER]) else 0
    if len(content) <= at:
        raise InvalidInputError("DmelChunk: the container is empty.")
    if content[at] >= _CONTAINER_DTYPES:
        raise InvalidInputError(f"DmelChunk: unknown dtype byte {content[at]}.")
    ndim, at = _varint(content, at + 1)
    if ndim == 0:
        raise InvalidInputError("DmelChunk: the tensor has no dimension 0.")
    return _varint(content, at)[0]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content) and shift < 64:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise InvalidInputError("DmelChunk: the header ends too early.")


# Union, not `|`: users combine the alias with others at import time and read its members.
ModelInputChunk: TypeAlias = Union[  # noqa: UP007
    EncodedTextChunk, ImageAssetPointerChunk, ImageChunk, DmelChunk
]
CHUNK_TYPES: tuple[type, ...] = get_args(ModelInputChunk)
# Type → the field that tells it, and its class; images of the first era have `tokens` too.
_KINDS: dict[object, tuple[str, Callable[..., ModelInputChunk]]] = {
    "dmel": ("dmel", DmelChunk),
    "image_asset_pointer": ("location", ImageAssetPointerChunk),
    "image": ("data", ImageChunk),
    "encoded_text": ("tokens", EncodedTextChunk),
}


def chunk_from_dict(value: Mapping[str, Any]) -> ModelInputChunk:
    """The chunk that a dict describes; without `type`, its fields tell which one it is."""
    told = next((kind for kind, (field, _) in _KINDS.items() if field in value), None)
    kind = value.get("type", told)
    if not isinstance(kind, str) or kind not in _KINDS:
        known = ", ".join(map(str, _KINDS))
        raise InvalidInputError(f"a chunk of type {kind!r} does not exist; types are {known}.")
    try:
        return _KINDS[kind][1](**value)
    except TypeError as error:
        # A field is missing or unknown; Python puts the name of the constructor before it.
        raise InvalidInputError(f"{kind}: {str(error).rpartition('__init__() ')[2]}.") from None
