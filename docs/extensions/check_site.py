"""Checks a built site: every internal link and anchor exists, and opening a page requests nothing from outside."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REQUESTS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
PASSIVE = {"canonical", "next", "prev", "index", "search", "author", "help"}  # `rel` of links that load nothing


class _Page(HTMLParser):
    """The anchors, links and requests of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.requests: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        passive = tag == "link" and set(given.get("rel", "").split()) & PASSIVE
        for name in ("src", "href"):
            if (tag, name) in REQUESTS and name in given and not passive:
                self.requests.append(given[name])


def faults(folder: Path) -> list[str]:
    """What is wrong with the links of the site, a line each."""
    read = cache(lambda path: _Page(path.read_text(encoding="utf-8")))
    found = []
    for path in sorted(folder.rglob("*.html")):
        page, name = read(path), path.relative_to(folder)
        found += [f"{name} requests {link}" for link in page.requests if _is_outside(link)]
        for link in [*page.links, *page.requests]:
            if _is_outside(link) or not link or link.startswith("data:"):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                found.append(f"{name} links to {link}, which is missing")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
                found.append(f"{name} links to {link}, which has no such anchor")
    for path in sorted(folder.rglob("*.css")):
        outside = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(folder)} requests {link}" for link in outside]
    return found


def _is_outside(link: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//|mailto:", link))
