"""One handler per operation of the document; importing this package registers them all."""

from tinker_ext.mock.handlers import (
    admin,
    checkpoints,
    control,
    downloads,
    models,
    polling,
    sampling,
    service,
    sessions,
    training,
    weights,
)

__all__ = [
    "admin",
    "checkpoints",
    "control",
    "downloads",
    "models",
    "polling",
    "sampling",
    "service",
    "sessions",
    "training",
    "weights",
]
