"""The code generator: from `openapi/` to `generated/`."""
