"""`tinker`, as tinker-ext stands in for it: the names of the official SDK, loaded on first use."""

import sys

from tinker_ext.compat.modules import become_tinker

__title__ = "tinker"
__version__ = "0.36.0"

become_tinker(sys.modules[__name__])
