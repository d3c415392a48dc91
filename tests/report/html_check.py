"""A strict reader of HTML: elements are closed where they must be, ids are unique, and nothing comes from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "hr", "input"}
IN_PARAGRAPH = {"b", "br", "code", "i", "a", "span"}  # what a browser leaves inside a <p>
ADDRESSES = ("href", "src", "srcset", "action", "data", "xlink:href")


class StrictReader(HTMLParser):
    """What a browser would show: `text`, `tags`, and `elements` as (tag, attributes); fails on what is malformed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.scripts: dict[str, str] = {}
        self._id = ""

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(set(names)) == len(names), (tag, names)
        assert "p" not in self.open or tag in IN_PARAGRAPH, f"<{tag}> ends the <p> around it"
        given = dict(attributes)
        self.elements.append((tag, given))
        self._id = given.get("id", "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self._id] = self.scripts.get(self._id, "") + data
        else:
            self.text.append(data)

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def having(self, name: str) -> list[dict]:
        """The attributes of elements that have this one."""
        return [given for _, given in self.elements if name in given]


def read_html(text: str) -> StrictReader:
    """The reader of a page or a part of one, which is well formed and asks nobody for anything."""
    reader = StrictReader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    ids = [given["id"] for given in reader.having("id")]
    assert len(set(ids)) == len(ids), ids
    for name in ADDRESSES:
        assert all(given[name].startswith(("data:", "#")) for given in reader.having(name)), name
    styles = "".join(data for data in reader.text if "{" in data) + "".join(g["style"] for g in reader.having("style"))
    assert not re.search(r"@import|url\(|image-set", styles)
    return reader
