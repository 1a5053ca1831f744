"""The run log: what a training run did and used, as lines of JSON, and the budget that stops it.

A run log is a file, by default ``metrics.jsonl``, with one JSON object per line. A line is written
whole or not at all, several processes may append to one file, and readers skip what they do not
know. Every line has these keys:

======== ======= =================================================================================
key      type    meaning
======== ======= =================================================================================
type     string  ``start``, ``operation``, ``step``, ``queue``, ``retry``, ``waiting``,
                 ``time``, ``session_start`` or ``session_end``
time     number  seconds since 1970, when the line was written
session  string  id of the session, null before there is one
======== ======= =================================================================================

``start``: the user has made a call: ``number``, ``operation``, ``target``, ``model``. A call is
pending until the ``operation`` line of the same session and number.

``operation``: one call of the user has ended.

=============== ================ =================================================================
number          integer          calls of a client, counted from 1 in the order they were made
operation       string           ``forward_backward``, ``optim_step``, ``asample``, …
target          string           model id, or the sampling session, path or base model
model           string or null   name of the base model, where it is known
seconds         number           from the call to its result
tokens_in       integer          tokens sent
tokens_out      integer          tokens sampled
tokens          object           the same as the ledger counts them: train, prefill, sample
datums          integer          datums of a batch, or sequences asked for
loss            number or null   ``loss:sum`` (else ``loss:mean``) of the reply
loss_per_token  number or null   ``loss:sum`` by the positions that took part in it
metrics         object           metrics of the reply
request_id      string or null   id of the (last) request
seq_id          integer or null  first seq_id of the call
attempts        integer          requests made for it in its last stage
retries         integer          how often a request of it was sent again
effect          string           whether it took effect: ``yes``, ``no`` or ``unknown``
error           string or null   name of the exception, null on success
=============== ================ =================================================================

``step``: an ``optim_step`` has succeeded.

=============== ================ =================================================================
step            integer          counts per model from 1, and goes on when a file is continued
target, model                    as above
loss            number or null   sum of the losses of forward_backward since the last step
loss_per_token  number or null   that sum by the positions that took part in it
metrics         object           metrics of the last forward_backward and of the step
tokens          object           train, prefill, sample since the last step of this model
seconds         number           since the last step of this model, or its first operation
totals          object           the ledger: train, prefill, sample, cost (null without prices)
=============== ================ =================================================================

``queue``: the server holds an operation back. ``operation``, ``target``, ``state``, ``reason``,
``request_id``; written when the state of an operation changes, never for ``active``.

``retry``: a request is sent again: ``number`` of the call (null for requests of the client's own),
``operation``, ``lane``, ``attempt`` that failed, ``reason`` (a status or the name of an error),
``delay`` in seconds and its ``source``.

``waiting``: what the oldest calls wait for, at most once a second and only when it has changed:
``count`` of all pending calls, and ``calls``, each with ``number``, ``operation``, ``target``,
``lane``, ``stage`` (``queued``, ``sending`` or ``waiting``), ``since`` and ``deadline`` (seconds
since 1970), ``attempts``, ``retries``, ``cause`` of the last retry, ``state``, ``reason``,
``request_id`` and ``seq_id``.

``time``: where the ``seconds`` before this line went. Each moment counts once, for what the oldest
pending call was doing: ``server`` (the server works on it), ``queue`` (it is held back: by the
server's queue, by a limit on requests, or by earlier calls), ``network`` (it is being sent, or sent
again after a failure), ``us`` (no call was pending: the program itself was at work). ``totals`` as
in ``step``.

``session_start``: ``version`` of the format, ``client`` version, ``budget`` (the limits that are
set) and ``currency`` of the prices. ``session_end``: ``seconds``, ``status`` and ``totals``.

Example:
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "metrics.jsonl"
    >>> RunLog(path).write("step", step=1, loss=2.5)
    >>> [(line["step"], line["loss"]) for line in read(path) if line["type"] == "step"]
    [(1, 2.5)]
"""

from tinker_ext.observe.ledger import Budget, Hold, Ledger
from tinker_ext.observe.prices import Prices
from tinker_ext.observe.run_log import VERSION, RunLog, last_steps, read
from tinker_ext.types.tokens import Tokens

__all__ = [
    "VERSION",
    "Budget",
    "Hold",
    "Ledger",
    "Prices",
    "RunLog",
    "Tokens",
    "last_steps",
    "read",
]
