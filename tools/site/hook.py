"""Hooks that MkDocs calls while it builds the site."""

from __future__ import annotations

import logging
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

from tools.site.commands import commands_page
from tools.site.outside import outside_requests
from tools.site.places import HOME, ROOT, linked_files, rewrite_links, to_project, to_site

LOG: Final = logging.getLogger("mkdocs.hooks.authorizerd")
"""A warning below MkDocs's logger, such as one of this logger, fails a strict build."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the anchors as GitHub does."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the home page, every linked file outside ``docs/``, and the page of commands."""
    pages = [f"docs/{page.src_uri}" for page in files.documentation_pages()]
    for path in sorted(linked_files([HOME, *pages])):
        place = to_site(path)
        if files.get_file_from_path(place) is None:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the page's links point to where the site has the files."""
    return rewrite_links(markdown, to_project(page.file.src_uri))


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Warn if a reader's browser would request anything from another host."""
    for address in outside_requests(output):
        LOG.warning("%s requests %s: readers should load nothing from there", page.url, address)
    return output
