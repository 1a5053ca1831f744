"""The journal of a run: what was sent and what is known to have happened, kept across crashes.

A file of whole lines, each with a checksum, written and synced before and after every effect.
It holds no credential and no training data: ids, numbers, digests, paths and small results.
"""

from tinker_ext.journal.file import VERSION, JournalError, JournalFile
from tinker_ext.journal.journal import Checkpoint, Journal, RecordedRequest, State, TrainedModel

__all__ = [
    "VERSION",
    "Checkpoint",
    "Journal",
    "JournalError",
    "JournalFile",
    "RecordedRequest",
    "State",
    "TrainedModel",
]
