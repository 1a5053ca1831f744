"""Runs programs as children that have everything imported; one JSON order per input line.

An order: text (the program), arguments, folder (its home; output goes to `said` and `told` in it)
and the seconds after which a child that hangs is aborted. The answer: its exit code.
"""

import faulthandler
import json
import os
import signal
import sys

import tinker_ext.clients.service

# What the programs use; nothing here starts a thread.
import tinker_ext.mock.embedded
import tinker_ext.runs  # noqa: F401

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    _, status = os.waitpid(child, 0)
    print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
else:
    sys.exit()

os.environ["HOME"] = order["folder"]
for name, number in (("said", 1), ("told", 2)):
    os.dup2(os.open(f"{order['folder']}/{name}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
# A program that hangs is ended by the alarm, and says where its threads were.
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm(order["seconds"])
sys.argv = ["program.py", *order["arguments"]]
exec(compile(order["text"], "program.py", "exec"), globals())
