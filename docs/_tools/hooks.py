"""Hooks of the site: run every snippet and show its output; write the pages made from code.

A snippet that fails stops the build. `nox -s docs -- --serve` shows the pages without running them.
"""

from __future__ import annotations

import gc
import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
for folder in (ROOT, ROOT / "generated", ROOT / "examples", Path(__file__).parent):
    sys.path.insert(0, str(folder))

import made_pages
import snippets

# Outputs of the pages that have snippets; they are made while the other pages are rendered.
_printed: dict[str, Future[list[dict[str, Any]]]] = {}


def on_startup(command: str, dirty: bool) -> None:
    """Do without garbage collection: it takes a sixth of a build, which ends soon."""
    if command == "build":
        gc.disable()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from code, then begin to run the snippets, those of several pages at once.

    Pages without snippets are rendered first, which takes about as long as running them. Those of
    the tutorial train for seconds: begun last, they would be waited for.
    """
    for path, text in made_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    if os.environ.get("TINKER_EXT_DOCS_FAST"):
        return files
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, 4))
    for file in sorted(files.documentation_pages(), key=_takes_little):
        if snippets.found(file.src_uri, file.content_string):
            _printed[file.src_uri] = pool.submit(
                snippets.outputs, file.src_uri, file.content_string
            )
    pool.shutdown(wait=False)
    return Files(sorted(files, key=lambda file: file.src_uri in _printed))


def _takes_little(file: File) -> bool:
    return not file.src_uri.startswith("tutorial/")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what each block printed under it."""
    if page.file.src_uri not in _printed:
        return markdown
    try:
        return snippets.shown(markdown, _printed[page.file.src_uri].result())
    except snippets.SnippetError as error:
        for other in _printed.values():
            other.cancel()
        raise PluginError(f"a snippet failed: {error}") from None
