"""The checks, one module per group; importing this package puts all of them on the list."""

from __future__ import annotations

from importlib import import_module

# The order of the report: what everything else builds on comes first.
GROUPS = (
    "service",
    "losses",
    "gradients",
    "optimizer",
    "ordering",
    "futures",
    "sampling",
    "scoring",
    "checkpoints",
    "errors",
    "bodies",
    "listings",
    "hosted",
)

for _group in GROUPS:
    import_module(f"{__name__}.{_group}")
