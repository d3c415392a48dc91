"""Configuration of the documentation site: `python docs/build.py` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent)]

import fusedsl  # noqa: E402

project = "fusedsl"
author = "the fusedsl authors"
copyright = "the fusedsl authors; Apache License 2.0"
version = release = fusedsl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
extensions += ["source_links", "generated_tables", "gallery_pages", "report_example"]  # of docs/extensions
exclude_patterns = ["_build", "extensions"]
nitpicky = True
suppress_warnings: list[str] = []

myst_enable_extensions = ["deflist", "fieldlist", "colon_fence"]
myst_heading_anchors = 3

default_role = "code"  # docstrings write code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "exclude-members": "default_code, grad"}
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"fusedsl {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"},
}
pygments_style, pygments_dark_style = "friendly", "monokai"
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
