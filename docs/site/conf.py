"""Sphinx's settings for the site that build.py makes."""

from __future__ import annotations

import builtins
import hashlib
import os
import posixpath
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]
sys.path[:0] = [str(SITE), str(ROOT / "bindings/python/src")]

import headers  # noqa: E402
import prose  # noqa: E402
from docutils import nodes  # noqa: E402
from pygments.lexers.special import TextLexer  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.domains.c import CDomain  # noqa: E402
from sphinx.ext.autodoc.mock import mock  # noqa: E402
from sphinx.transforms import SphinxTransform  # noqa: E402

import build  # noqa: E402

HEADER = (ROOT / "include/mmsb.h").read_text(encoding="utf-8")
C_NAMES = headers.c_names(HEADER)

project = "libmmsb"
version = release = HEADER.split('MMSB_VERSION_STRING "')[1].split('"')[0]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
highlight_language = "none"
smartquotes = False
# C and C++ of the reference, in signatures wider than a line, get a line for each parameter.
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 4

autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"libmmsb {release}"
html_static_path = [str(SITE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
# Summaries are fetched, which a browser refuses to pages that it opened as files.
html_show_search_summary = False
pygments_style = "default"
pygments_dark_style = "github-dark"


# PyTorch takes 4 GB: what mmsb.state.dcp asks of it stands in its place.
with mock(["torch"]):
    import_module("torch").dtype = type("dtype", (), {})
    for module, name in (("staging", "AsyncStager"), ("storage", "StorageReader"), ("storage", "StorageWriter")):
        path = f"torch.distributed.checkpoint.{module}"
        setattr(import_module(path), name, type(name, (), {"__module__": path}))
    import mmsb.state.dcp  # noqa: F401


class LinksToFiles(SphinxTransform):
    """Links of the texts to files of the tree lead to the pages that show these; those to folders are text."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("reftype") != "myst" or link.get("refdomain"):
                continue
            folder = posixpath.dirname(self.env.docname)
            name = posixpath.normpath(posixpath.join(folder, link["reftarget"]))
            page = build.PAGES_OF_FILES.get(name, f"files/{name}")
            if page in self.env.found_docs:
                link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", page, None
            elif os.path.isdir(ROOT / name):
                link.replace_self(nodes.inline("", "", *link.children[0].children))


class Functions(CDomain):
    """The domain C, whose parameters are no results of a search."""

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        return (found for found in super().get_objects() if found[2] != "functionParam")


class NoLinksOfBuiltins(SphinxTransform):
    """The type bytes of an annotation is no attribute of that name."""

    default_priority = 5

    def apply(self, **_: object) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("refdomain") == "py" and link.get("reftype") == "class" and hasattr(builtins, link["reftarget"]):
                link.replace_self(nodes.Text(link["reftarget"]))


def format_docstring(_app: Sphinx, what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()
    lines[:] = prose.docstring(lines, C_NAMES, has_parameters=what != "module")


def hide_constructor(_app: Sphinx, what: str, name: str, *_: object) -> tuple[str, str] | None:
    return ("", "") if what == "class" and name not in build.CONSTRUCTED else None


def setup(app: Sphinx) -> None:
    # What these programs write changes with them: Sphinx reads everything again.
    programs = b"".join(path.read_bytes() for path in sorted(SITE.glob("*.py")))
    app.add_config_value("programs", hashlib.sha256(programs).hexdigest(), "env")
    app.add_domain(Functions, override=True)
    app.add_transform(LinksToFiles)
    app.add_transform(NoLinksOfBuiltins)
    app.add_lexer("arrows", TextLexer)
    app.connect("autodoc-process-signature", hide_constructor)
    app.connect("autodoc-process-docstring", format_docstring)
