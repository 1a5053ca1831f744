"""Hooks of the site: run every snippet and show its output; write the pages made from code.

A snippet that fails stops the build. `nox -s docs -- --serve` shows the pages without running them.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
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

_printed: dict[str, list[dict[str, Any]]] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from code, then run the snippets of all pages, several at a time."""
    for path, text in made_pages.pages().items():
        files.append(File.generated(config, path, content=text))
    if os.environ.get("TINKER_EXT_DOCS_FAST"):
        return files
    pages = {file.src_uri: file.content_string for file in files.documentation_pages()}
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
        try:
            done = pool.map(snippets.outputs, pages.keys(), pages.values())
            _printed.update(zip(pages, done, strict=True))
        except snippets.SnippetError as error:
            raise PluginError(f"a snippet failed: {error}") from None
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put what each block printed under it."""
    results = _printed.get(page.file.src_uri)
    return snippets.shown(markdown, results) if results else markdown
