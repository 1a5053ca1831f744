"""What the page on custom losses shows also runs where torch can be imported."""

import subprocess
import sys

from docs._tools import snippets


def test_the_page_on_custom_losses_runs_beside_torch(tmp_path):
    """M15 F36: an example for numpy is not handed tensors because torch happens to be there."""
    page = snippets.HERE.parent / "custom-losses.md"
    text = snippets.program(page.read_text(encoding="utf-8"))
    command = [sys.executable, "-c", f"import torch\n{text}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
