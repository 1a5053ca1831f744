"""Checkpoint files from a URL to disk: fetched with resume and checks, unpacked without escapes."""

from tinker_ext.downloads.fetch import FetchLimits, alone, fetch
from tinker_ext.downloads.unpack import UnpackLimits, unpack

__all__ = ["FetchLimits", "UnpackLimits", "alone", "fetch", "unpack"]
