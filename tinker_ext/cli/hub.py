"""`tinker-ext checkpoint push-hf`: a checkpoint to the Hugging Face Hub as a PEFT adapter."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import click

from tinker_ext._extras import how_to_install
from tinker_ext.cli.checkpoints import path_argument
from tinker_ext.cli.connect import rest
from tinker_ext.cli.failures import CommandError
from tinker_ext.cli.lazy import Command, screen_of
from tinker_ext.cli.screen import Screen
from tinker_ext.cli.weights_files import directory_name, download

EXAMPLES = """
tinker-ext checkpoint push-hf tinker://RUN/weights/final -r me/my-adapter
tinker-ext checkpoint push-hf tinker://RUN/weights/final --public --create-pr
"""

UNREACHED = frozenset({"TransportError", "ConnectionError", "Timeout", "TimeoutError"})
"""Classes of errors, by name, that say nothing about who is logged in."""


@click.command(cls=Command, name="push-hf", examples=EXAMPLES)
@path_argument
@click.option("-r", "--repo", metavar="REPO", help="Repository; by default named after the run.")
@click.option("--public", is_flag=True, help="Make a new repository public.")
@click.option("--revision", help="Branch to upload to.")
@click.option("--commit-message", help="Message of the commit.")
@click.option("--create-pr", is_flag=True, help="Open a pull request instead of pushing.")
@click.option("--allow-pattern", "allow", multiple=True, metavar="PATTERN",
              help="Upload only files that match. May be repeated.")  # fmt: skip
@click.option("--ignore-pattern", "ignore", multiple=True, metavar="PATTERN",
              help="Leave out files that match. May be repeated.")  # fmt: skip
@click.option("--no-model-card", is_flag=True, help="Do not write a README.md.")
@click.pass_context
def command(
    context: click.Context,
    path: str,
    repo: str | None,
    public: bool,
    revision: str | None,
    commit_message: str | None,
    create_pr: bool,
    allow: tuple[str, ...],
    ignore: tuple[str, ...],
    no_model_card: bool,
) -> None:
    """Upload a checkpoint to the Hugging Face Hub as a PEFT adapter.

    You must be logged in there: `hf auth login`, or HF_TOKEN. Who you are, whether you may write
    to REPO and whether the checkpoint exists is checked before anything is exported.
    """
    api = _hub()
    screen = screen_of(context)
    _check_access(api, repo)
    card = _card(screen, path)
    with tempfile.TemporaryDirectory(prefix="tinker-ext-") as temporary:
        folder = Path(temporary) / directory_name(path)
        download(screen, path, folder)
        if not (folder / "adapter_config.json").exists():
            raise CommandError(
                f"{path} has no adapter_config.json, so it is not a PEFT adapter",
                "`tinker-ext checkpoint download` fetches the files as they are.",
            )
        if not no_model_card and not (folder / "README.md").exists():
            (folder / "README.md").write_text(card, encoding="utf-8")
        made: Any = api.create_repo(
            repo or repository_name(path), private=not public, exist_ok=True
        )
        repo_id = str(getattr(made, "repo_id", None) or repo or repository_name(path))
        api.upload_folder(
            repo_id=repo_id,
            folder_path=str(folder),
            revision=revision,
            commit_message=commit_message or f"Upload {path}",
            create_pr=create_pr,
            allow_patterns=list(allow) or None,
            ignore_patterns=list(ignore) or None,
        )
    result = {"checkpoint_path": path, "repo_id": repo_id}
    if screen.is_json:
        screen.json(result | ({"revision": revision} if revision else {}) | {"public": public})
    else:
        screen.say(f"Uploaded {path} to {repo_id}.")


def _hub() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise CommandError("uploading needs huggingface_hub", how_to_install("hf")) from None
    return HfApi()


def _check_access(api: Any, repo: str | None) -> None:
    """Refuse an upload that would fail after minutes of export and download.

    Raises:
        CommandError: The Hub is out of reach, nobody is logged in, or the repository belongs to
            somebody else.
    """
    try:
        who = api.whoami()
    except Exception as error:
        # The hub library raises many unrelated classes, of httpx or of requests by its version.
        reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". ")[0][:200]
        if UNREACHED.intersection(cls.__name__ for cls in type(error).__mro__):
            raise CommandError(
                f"the Hugging Face Hub cannot be reached: {reason}",
                "Check the network, HF_ENDPOINT and HF_HUB_OFFLINE. Nothing was exported.",
            ) from None
        raise CommandError(
            f"the Hugging Face Hub does not let you in: {reason}",
            "Log in with `hf auth login`, or set HF_TOKEN. Nothing was exported.",
        ) from None
    owner, _, name = (repo or "").rpartition("/")
    yours = [str(who.get("name")), *(str(group.get("name")) for group in who.get("orgs") or ())]
    if owner and owner not in yours:
        raise CommandError(
            f"{who.get('name')} cannot write to {repo} on the Hugging Face Hub",
            f"You can write to: {', '.join(f'{each}/{name}' for each in yours)}. "
            "Nothing was exported.",
        )


def repository_name(path: str) -> str:
    """Return a repository name for a checkpoint.

    Example:
        >>> repository_name("tinker://a:train:0/weights/final")
        'tinker-a-train-0-weights-final'
    """
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", directory_name(path).replace("_", "-"))
    return f"tinker-{words}"[:96].strip("-.")


def _card(screen: Screen, path: str) -> str:
    with rest(screen) as client:
        info = client.get_weights_info_by_tinker_path(path).result()
    rank = f"rank {info.lora_rank}" if info.lora_rank else "unknown rank"
    return (
        "---\n"
        f"base_model: {info.base_model}\n"
        "library_name: peft\n"
        "tags:\n- lora\n- tinker\n"
        "---\n\n"
        f"# LoRA adapter for {info.base_model}\n\n"
        f"Trained through the Tinker API ({rank}), from checkpoint `{path}`.\n"
    )
