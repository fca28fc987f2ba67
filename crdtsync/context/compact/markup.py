"""HTML as text with headings, lists, tables and links; Markdown by its sections."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from crdtsync.context.compact.prose import chosen
from crdtsync.context.compact.result import CompactDraft

_SILENT = {"script", "style", "svg", "noscript", "template", "head"}
_FRAMES = {"nav", "footer", "aside"}
_BREAKS = {"p", "div", "section", "article", "tr", "ul", "ol", "table", "blockquote", "dl", "dt", "dd", "br", "main"}
_HEADING = re.compile(r"^#{1,6} ")
_LONE = re.compile(r"<(?![^<>]*>)")
_DECLARATION = re.compile(r"<![^<>]*>")
_LONG_TAG = re.compile(r"<([a-zA-Z][\w-]*)[^<>]{2000,}>")
_FENCED_MAX = (10**9, 30, 12, 6, 3)  # lines of a block of code, by level


def compact_html(text: str, level: int, query: str | None) -> CompactDraft:
    """``text``, HTML, at ``level``: its words as Markdown, without what only frames a page."""
    reader = _Reader(frames=level == 0)
    reader.feed(_tidy(text))
    reader.close()
    lines = [re.sub(r"^ (?! )", "", line.rstrip()) for line in "".join(reader.out).split("\n")]
    lines = [line for line in lines if not re.fullmatch(r"[-|¶ ]+", line)]
    plain = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    draft = compact_markdown(plain, level, query)
    left = ["scripts, styles and attributes"] + (["navigation and footers"] if reader.frames_cut else [])
    return CompactDraft(draft.text, ["html as text", *draft.transforms], [*left, *draft.left_out])


def _tidy(html: str) -> str:
    """Without what the parser looks for the end of, over and over, in a text that has none: each step is linear."""
    kept = []
    at = 0
    while (begin := html.find("<!--", at)) >= 0 and (end := html.find("-->", begin)) >= 0:
        kept.append(html[at:begin])
        at = end + 3
    html = _LONE.sub("&lt;", "".join((*kept, html[at:])))
    return _LONG_TAG.sub(r"<\1>", _DECLARATION.sub("", html))


class _Reader(HTMLParser):
    """Collects text; ``frames``: also what stands in navigation, footers and asides."""

    def __init__(self, *, frames: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.frames_cut = False
        self._skipped = set(_SILENT) if frames else _SILENT | _FRAMES
        self._silent: list[str] = []
        self._link: str | None = None
        self._is_pre = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._skipped:
            self._silent.append(tag)
            self.frames_cut |= tag in _FRAMES
        elif tag == "pre":
            self._is_pre = True
            self.out.append("\n```\n")
        elif tag in _BREAKS:
            self.out.append("\n")
        elif re.fullmatch(r"h[1-6]", tag):
            self.out.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.out.append("\n- ")
        elif tag in ("td", "th"):
            self.out.append(" | ")
        elif tag == "a":
            self._link = dict(attrs).get("href")
        elif tag == "img" and dict(attrs).get("alt"):
            self.out.append(f"[picture: {dict(attrs)['alt']}]")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                pass
        elif tag == "a":
            if self._link and self._link.startswith(("http", "/")) and not self._silent:
                self.out.append(f" ({self._link})")
            self._link = None
        elif tag == "pre":
            self._is_pre = False
            self.out.append("\n```\n")
        elif tag in _BREAKS or re.fullmatch(r"h[1-6]", tag):
            self.out.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.out.append(data if self._is_pre else re.sub(r"\s+", " ", data))


def compact_markdown(text: str, level: int, query: str | None) -> CompactDraft:
    """``text``, Markdown, at ``level``: headings, lists and tables stay; paragraphs by their sentences."""
    out: list[str] = []
    draft = CompactDraft("")
    paragraph: list[str] = []
    cut = 0

    def end_paragraph() -> None:
        nonlocal cut
        if paragraph:
            whole = "\n".join(paragraph)
            kept = chosen(whole, level, query)
            cut += len(whole) > len(kept)
            out.append(kept)
            paragraph.clear()

    blocks = re.split(r"(^```.*?^```[^\n]*$)", text, flags=re.MULTILINE | re.DOTALL)
    for block in blocks:
        if block.startswith("```"):
            lines = block.split("\n")
            most = _FENCED_MAX[level]
            if len(lines) > most + 2:
                draft.left_out.append(f"{len(lines) - most - 2} lines of a block of code")
                lines = [*lines[: most + 1], f"[… {len(lines) - most - 2} lines left out]", lines[-1]]
            out.append("\n".join(lines))
            continue
        for line in block.split("\n"):
            if not line.strip():
                end_paragraph()
            elif _HEADING.match(line) or re.match(r"\s*([-*+]|\d+\.) |\||>", line):
                end_paragraph()
                out.append(line.rstrip())
            else:
                paragraph.append(line.strip())
        end_paragraph()
    if cut:
        draft.transforms.append("sentences chosen")
        draft.left_out.append(f"sentences of {cut:,} paragraphs")
    draft.text = "\n".join(out)
    return draft
