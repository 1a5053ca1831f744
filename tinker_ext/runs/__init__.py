"""Runs that survive a crash: `Run` keeps a journal and goes on where the last process stopped."""

from tinker_ext.clients.journaling import Resumption
from tinker_ext.journal import Journal, JournalError
from tinker_ext.runs.run import Run

__all__ = ["Journal", "JournalError", "Resumption", "Run"]
