"""# 3. Survive a crash

Machines are turned off, processes are killed, connections break. A `Run` keeps a journal on disk,
written before and after each request, so that the same program, started again, continues where it
stopped, and no step takes effect twice. This page kills a training program to show that.

The program trains with the embedded server, whose state is in a folder here (`embedded:state`), so
that the server's state also survives the end of the process. With another server, only the URL
changes.
"""

# %%
import signal
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = """
import sys
from tinker_ext import AdamParams, Datum, ModelInput, Run

folder, steps = sys.argv[1], int(sys.argv[2])
datum = Datum(ModelInput.from_ints([5, 6, 7, 8]), {"target_tokens": [6, 7, 8, 9]})

with Run(f"{folder}/run.journal", base_model="tinker-ext/tiny", rank=4, seed=1,
         base_url=f"embedded:{folder}/state") as run:
    for step in run.steps(steps):
        result = run.training.forward_backward([datum] * 4, "cross_entropy")
        run.training.optim_step(AdamParams(learning_rate=1e-2)).result()
        print(f"step {step} loss per token {result.result().loss_per_token:.6f}", flush=True)
"""
Path("train.py").write_text(PROGRAM, encoding="utf-8")
for folder in ("undisturbed", "killed"):
    Path(folder).mkdir(exist_ok=True)

# %% [markdown]
# ## An undisturbed run, to compare with


# %%
def train(folder: str, steps: int) -> list[str]:
    """Run the program to its end and return what it printed."""
    command = [sys.executable, "train.py", folder, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


expected = train("undisturbed", 12)
print("\n".join(expected))

# %% [markdown]
# ## kill -9 in the middle
#
# This signal cannot be caught, so nothing can clean up.

# %%
process = subprocess.Popen(
    [sys.executable, "train.py", "killed", "12"], stdout=subprocess.PIPE, text=True
)
seen = []
for line in process.stdout:
    seen.append(line.rstrip())
    if len(seen) == 5:
        break
process.send_signal(signal.SIGKILL)
seen += process.communicate()[0].splitlines()
print("\n".join(seen))
print("exit code", process.returncode)

# %% [markdown]
# ## The same command again

# %%
time.sleep(0.1)
rest = train("killed", 12)
print("\n".join(rest))

# %% [markdown]
# It continued where it stopped. A step that was in progress is entered again, but what the server
# had already done is not done twice: the losses equal those of the undisturbed run, digit for
# digit.

# %%
together = {line.split()[1]: line for line in seen + rest}
print([together[line.split()[1]] == line for line in expected])
assert list(together.values()) == expected

# %% [markdown]
# How it works, what is kept, and what happens when the server has lost the model:
# [Runs that survive a crash](../runs.md).
