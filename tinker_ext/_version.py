"""The version of the package, read by the build and by request headers."""

__version__ = "0.1.0"
