"""The bits of the embedded model do not depend on how many threads BLAS has."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


SCRIPT = """
import hashlib, numpy as np
from tinker_ext.mock.engine import *
rng = np.random.default_rng(0)
adapter = Adapter(BaseModel.create("threads", 700), rank=64)
data = [
    Datum(rng.integers(0, 700, n), {"target_tokens": rng.integers(0, 700, n)})
    for n in (128, 128, 200)
]
for _ in range(2):
    adapter.forward_backward(data, "cross_entropy")
    adapter.optim_step(AdamW(learning_rate=1e-2))
digest = hashlib.sha256()
for name, value in sorted(adapter.state_dict().items()):
    digest.update(value.tobytes())
for sample in adapter.snapshot().sample([1, 2, 3], 3, SampleParams(max_tokens=20)):
    digest.update(sample.tokens.tobytes() + sample.logprobs.tobytes())
print(digest.hexdigest())
"""


def test_blas_threads_do_not_change_the_bits():
    """M40: the same digest from fresh processes with one and with four BLAS threads."""
    digests = set()
    for threads in ("1", "4"):
        environ = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1
