"""The command line under its official module path; `python -m tinker.cli` runs it."""
