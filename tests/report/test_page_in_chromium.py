"""Report pages in a browser: no fault on the console, no scrolling sideways, and lines find their instructions."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from test_explain import needs_compiler

import fusedsl as fd

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1280,900"),
    *("--disable-background-networking", "--virtual-time-budget=4000", "--dump-dom"),
)
LOOKS = """
<script>
for (const details of document.querySelectorAll("details")) {
  details.open = true;
  details.dispatchEvent(new Event("toggle"));
}
setTimeout(() => {
  const [source, ...others] = document.querySelectorAll(".pane pre");
  const line = [...source.children].find((row) => row.textContent.includes("= exp("));
  line.click();
  const marked = others.map((pane) => [...pane.children].filter((row) => row.className.includes("on")).length);
  const told = { width: innerWidth, wide: document.documentElement.scrollWidth, marked,
    on: source.querySelectorAll(".on").length, back: getComputedStyle(document.body).backgroundColor };
  others[0].querySelector(".on").click();
  told.from = [...source.children].filter((row) => row.className.includes("on")).map((row) => row.textContent);
  console.log("told " + JSON.stringify(told));
}, 500);
</script>
"""
pytestmark = [
    needs_compiler,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page that looks at itself."""
    file = tmp_path_factory.mktemp("pages") / "page.html"
    given = fd.spec((512, 1000))
    fd.kernel("softmax(x * 2) + 1").report(file, given, compile=(90,))
    text = file.read_text(encoding="utf-8")
    assert len(text) < 2e6
    file.write_text(text.replace("</body>", f"{LOOKS}</body>"), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_page_in_a_browser(page, width, scheme):
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(f'<!doctype html><iframe src="{page.name}" width="{width}" height="800" frameborder="0"></iframe>')
    told, faults = _look(frame, page, scheme)
    assert not faults
    assert told["width"] == width and told["wide"] <= width  # nothing but its own boxes scrolls sideways
    assert told["on"] == 1 and all(told["marked"]) and len(told["from"]) >= 1
    assert any("= exp(" in line for line in told["from"])
    red = int(re.findall(r"\d+", told["back"])[0])
    assert (red < 64) == (scheme == "dark")


def _look(frame, page, scheme):
    """(what the page tells of itself, the other lines of the console)"""
    options = [
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
        f"--user-data-dir={page.parent}/{scheme}",
    ]
    done = subprocess.run([BROWSER, *OPTIONS, *options, frame.as_uri()], capture_output=True, text=True, timeout=90)
    lines = re.findall(r'CONSOLE[^"]*"(.*)", source: ', done.stderr)
    told = [line.removeprefix("told ") for line in lines if line.startswith("told ")]
    assert told, done.stderr[-2000:]
    return json.loads(told[0]), [line for line in lines if not line.startswith("told ")]
