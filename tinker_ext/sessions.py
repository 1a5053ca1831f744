"""The former address of `RetryConfig`, which pickles of earlier releases name."""

import sys

from tinker_ext.core import retry_config

__path__: list[str] = []
sys.modules[f"{__name__}.retry_config"] = retry_config
