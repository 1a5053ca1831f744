"""# 6. Deploy the adapter

Training produces a LoRA adapter. This page exports one, looks at the files, and uses them with
PEFT, vLLM and the Hugging Face Hub.
"""

# %%
import json
import subprocess
import sys
from pathlib import Path

from tinker_ext import AdamParams, Datum, ModelInput, ServiceClient
from tinker_ext.mock import Server
from tinker_ext.quickstart import animals

# A server with a URL, so that the command line can reach it too.
server = Server().__enter__()
service = ServiceClient(base_url=server.url)
training = service.create_lora_training_client("tinker-ext/tiny", rank=8, seed=1)
tokenizer = training.get_tokenizer()
rows = [tokenizer.encode(line) for line in animals()[:16]]
data = [Datum(ModelInput.from_ints(row[:-1]), {"target_tokens": row[1:]}) for row in rows]
for _ in range(40):
    result = training.forward_backward(data, "cross_entropy")
    training.optim_step(AdamParams(learning_rate=1e-2)).result()
checkpoint = training.save_state("final").result().path
print(f"loss per token {result.result().loss_per_token:.3f}, saved as {checkpoint}")

# %% [markdown]
# ## Try it


# %%
def tinker(*arguments: str) -> str:
    """Run the command line and return what it prints."""
    command = [sys.executable, "-m", "tinker_ext", "--base-url", server.url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


print(tinker("sample", checkpoint, "The cow says", "--temperature", "0", "--max-tokens", "6"))

# %% [markdown]
# ## Download it
#
# `checkpoint download` fetches the files, resumes an interrupted download, and verifies them.

# %%
print(tinker("checkpoint", "download", checkpoint, "-o", "adapters"))
(folder,) = Path("adapters").iterdir()
for file in sorted(folder.iterdir()):
    print(f"{file.stat().st_size:>9,} bytes  {file.name}")

# %% [markdown]
# This is the PEFT layout: weights as safetensors, with a configuration file.

# %%
description = json.loads((folder / "adapter_config.json").read_text())
for name in ("peft_type", "r", "lora_alpha", "target_modules", "base_model_name_or_path"):
    print(f"{name:<24} {description.get(name)}")
service.close("success").result()
server.__exit__(None, None, None)

# %% [markdown]
# ## PEFT
#
# ```py
# from peft import PeftModel
# from transformers import AutoModelForCausalLM
#
# base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")   # the model you trained on
# model = PeftModel.from_pretrained(base, "adapters/…")
# model.merge_and_unload().save_pretrained("merged")              # one model, if you prefer
# ```
#
# ## vLLM
#
# ```console
# $ vllm serve Qwen/Qwen3-8B --enable-lora --lora-modules animals=adapters/… --max-lora-rank 32
# $ curl http://localhost:8000/v1/completions -H 'Content-Type: application/json' \
#     -d '{"model": "animals", "prompt": "The cow says", "max_tokens": 8}'
# ```
#
# ## The Hugging Face Hub
#
# ```console
# $ hf auth login
# $ tinker-ext checkpoint push-hf tinker://…/weights/final -r you/animals
# ```
#
# Before it exports anything, it checks that you are logged in and may write there. It also writes a
# model card that names the base model.
