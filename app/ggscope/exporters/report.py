"""A report as one HTML file: it needs no network, runs nothing of a trace, and prints.

Whatever is put in is text and is escaped here; pictures are data within the page. The
policy of the page (Content-Security-Policy) names its own script and style by their
hashes, so that no other could run even if a name got past the escaping. Without the
script everything is there all the same: exact values are then tooltips of the browser.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ggscope.sanitize import xml

MAX_BYTES = 5_000_000
"""No report is larger, whatever the trace is."""
MAX_CELL = 240
"""Characters of a cell; what is longer is cut, and an ellipsis says so."""
_MAX_LABEL = 30
"""Characters of the label of a bar."""
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--soft:#5c5c5c;--line:#d8d8d8;
--band:#f4f4f4;--bad:#a33b00;--bar:#0072b2}
@media screen and (prefers-color-scheme:dark){:root{
--ink:#e4e4e4;--paper:#1e1e1e;--soft:#a6a6a6;
--line:#3d3d3d;--band:#272727;--bad:#ff9d6b;--bar:#56b4e9}}
body{font:15px/1.5 system-ui,"Liberation Sans",Arial,sans-serif;color:var(--ink);
background:var(--paper);max-width:82rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;
border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}p,figcaption{overflow-wrap:anywhere}
pre{font:13px/1.45 ui-monospace,"Liberation Mono",monospace;background:var(--band);
padding:.8rem 1rem;overflow:auto;white-space:pre}
nav ul{margin:0 0 1.4rem;padding:0;list-style:none;display:flex;flex-wrap:wrap;
gap:.2rem 1.2rem}a{color:var(--bar)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(10rem,1fr));
gap:.9rem 1.6rem;margin:0 0 1.4rem}dt{color:var(--soft);font-size:13px}
dd{margin:0;overflow-wrap:anywhere}caption{text-align:left;font-weight:600;
padding:1rem 0 .3rem;font-size:15px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px}
th,td{padding:.22rem .7rem .22rem 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums;
vertical-align:top}
th{color:var(--soft);font-weight:600}
th.text,td.text{text-align:left;white-space:normal;overflow-wrap:anywhere;
min-width:7rem;max-width:34rem}
[data-exact]{cursor:help}td[data-exact]{text-decoration:underline dotted var(--line)}
.error,.data_loss{color:var(--bad);font-weight:600}.note,figcaption{color:var(--soft)}
figure{margin:0 0 1.6rem}
figure img{display:block;max-width:100%;height:auto;border:1px solid var(--line)}
.frame{display:block;overflow-x:auto;cursor:zoom-in}
.picture{display:block;position:relative;width:fit-content;max-width:100%}
.zoom{position:absolute;opacity:0}
.zoom:focus-visible+.frame{outline:2px solid var(--bar)}
.zoom:checked+.frame{cursor:zoom-out}
.zoom:checked+.frame .picture{width:max(170%,64rem);max-width:none}
.zoom:checked+.frame img{width:100%}
@media screen and (max-width:45rem){.picture{width:44rem;max-width:none}}
svg.spots{position:absolute;inset:0;width:100%;height:100%}
svg.spots rect{fill:transparent;stroke:none}
svg.spots rect:hover{stroke:var(--ink);stroke-width:1}
table.bars{width:100%;max-width:62rem}table.bars td,table.bars th{border:0;
white-space:normal}table.bars th{max-width:14rem;overflow-wrap:break-word;
color:inherit;font-weight:400}
table.bars td.bar{width:99%;min-width:4rem}
table.bars td.value{text-align:left;white-space:nowrap}
td.bar svg{display:block;width:100%;height:14px;margin-top:.15rem}
td.bar rect{fill:var(--bar)}tr[data-exact]:hover rect{opacity:.75}
#tip{position:fixed;z-index:9;max-width:36rem;padding:.35rem .6rem;font-size:13px;
background:var(--ink);color:var(--paper);pointer-events:none;overflow-wrap:anywhere;
white-space:pre-line}
@media print{nav{display:none}
body{margin:0;max-width:none;font-size:10pt}h2{break-after:avoid}
figure,tr{break-inside:avoid}#tip,svg.spots{display:none}
.scroll,.frame{overflow:visible}
pre,table{font-size:8pt}}
"""
_SCRIPT = """
"use strict";(function(){
var tip=document.createElement("div");tip.id="tip";tip.hidden=true;
document.body.appendChild(tip);
document.querySelectorAll("svg.spots title").forEach(function(own){
own.parentNode.setAttribute("data-exact",own.textContent);own.remove();});
document.querySelectorAll("[data-exact]").forEach(function(at){
at.removeAttribute("title");});
document.addEventListener("mousemove",function(event){
var at=event.target.closest&&event.target.closest("[data-exact]");
if(!at){tip.hidden=true;return;}
tip.textContent=at.getAttribute("data-exact");tip.hidden=false;
var x=event.clientX+14,y=event.clientY+16;
x=Math.min(x,innerWidth-tip.offsetWidth-6);
if(y+tip.offsetHeight>innerHeight){y=event.clientY-tip.offsetHeight-8;}
tip.style.left=Math.max(x,4)+"px";tip.style.top=Math.max(y,4)+"px";});
document.addEventListener("mouseleave",function(){tip.hidden=true;});
})();
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    exact : every digit of it, shown on hovering; "" where `text` says it all.
    kind : how it stands out: the word of a severity; "" = not.
    """

    text: str
    exact: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table; `n_text` first columns, and the last if `text_last`, are texts."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    n_text: int = 1
    text_last: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart; `share` is its length as a share of the longest."""

    label: str
    share: float
    text: str
    exact: str


@dataclass(frozen=True, slots=True)
class HitRegion:
    """A rectangle of a picture, in its units, that has something to say."""

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A figure as PNG on light paper and, unless empty, on dark.

    `extent` is its width and height in the units of its spots.
    """

    title: str
    light: bytes
    dark: bytes = b""
    caption: str = ""
    extent: tuple[float, float] = (1.0, 1.0)
    spots: tuple[HitRegion, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that its pixels take in the page."""
        return sum(-(-len(png) // 3) * 4 for png in (self.light, self.dark))


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A part of the report.

    Attributes
    ----------
    text : preformatted text, as a terminal shows it.
    facts : name and value of what stands first.
    """

    title: str
    text: str = ""
    notes: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()


def policy(style: str, script: str = "") -> str:
    """Return what a page allows that has this style and script, and no others."""
    scripts = f"; script-src '{_hash(script)}'" if script else ""
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'{scripts}"
    )


def report_html(title: str, sections: Iterable[Section]) -> bytes:
    """Return the page. All texts are escaped; the caller keeps it below MAX_BYTES."""
    rules = policy(_STYLE, _SCRIPT)
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">',
        '<meta name="viewport" content="width=device-width">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
    ]
    listed = list(enumerate(sections, start=1))
    links = "".join(
        f'<li><a href="#part-{i}">{xml(part.title)}</a></li>' for i, part in listed
    )
    parts.append(f'<nav aria-label="Contents"><ul>{links}</ul></nav>')
    n_pictures = 0
    for i, section in listed:
        parts.append(f'<section><h2 id="part-{i}">{xml(section.title)}</h2>')
        if section.facts:
            parts.append(_facts(section.facts))
        if section.text:
            parts.append(f"<pre>{xml(section.text)}</pre>")
        parts += [f'<p class="note">{xml(note)}</p>' for note in section.notes]
        if section.bars:
            parts.append(_bars(section.bars))
        for picture in section.pictures:
            n_pictures += 1
            parts.append(_picture(picture, f"zoom-{n_pictures}"))
        for table in section.tables:
            parts += _table(table)
        parts.append("</section>")
    parts.append(f"<script>{_SCRIPT}</script></body></html>\n")
    return "\n".join(parts).encode("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _text(text: str) -> str:
    """Return a cell's text escaped, and cut where it is very long."""
    return xml(text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…")


def _exact(text: str) -> str:
    """Return the attribute that the script shows, or nothing."""
    return f' data-exact="{_text(text)}"' if text else ""


def _table(table: ReportTable) -> list[str]:
    last = len(table.head) - 1

    def kind(i: int) -> str:
        return "text" if i < table.n_text or (table.text_last and i == last) else ""

    def classes(*names: str) -> str:
        given = " ".join(name for name in names if name)
        return f' class="{xml(given)}"' if given else ""

    head = "".join(
        f'<th scope="col"{classes(kind(i))}>{_text(name)}</th>'
        for i, name in enumerate(table.head)
    )
    caption = f"<caption>{xml(table.title)}</caption>" if table.title else ""
    has_head = any(table.head)
    head = f"<thead><tr>{head}</tr></thead>" if has_head else ""
    lines = [f'<div class="scroll"><table>{caption}{head}<tbody>']
    for row in table.rows:
        cells = [
            f"<td{classes(kind(i), cell.kind)}{_exact(cell.exact)}"
            f"{_title(cell.exact)}>{_text(cell.text)}</td>"
            for i, cell in enumerate(row)
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return lines + [f'<p class="note">{xml(note)}</p>' for note in table.notes]


def _facts(facts: Sequence[tuple[str, Cell]]) -> str:
    items = (
        f"<div><dt>{xml(name)}</dt>"
        f"<dd{_exact(cell.exact)}{_title(cell.exact)}>{_text(cell.text)}</dd></div>"
        for name, cell in facts
    )
    return f"<dl>{''.join(items)}</dl>"


def _title(exact: str) -> str:
    """Return the attribute that browsers show without the script, or nothing."""
    return f' title="{_text(exact)}"' if exact else ""


def _bars(bars: Sequence[Bar]) -> str:
    rows = (
        f"<tr{_exact(bar.exact)}{_title(bar.exact)}>"
        f'<th scope="row">{_text(_shortened(bar.label))}</th>'
        '<td class="bar"><svg viewBox="0 0 100 1" preserveAspectRatio="none">'
        f'<rect width="{100 * max(min(bar.share, 1.0), 0.0):.2f}" height="1"></rect>'
        f'</svg></td><td class="value">{_text(bar.text)}</td></tr>'
        for bar in bars
    )
    return f'<table class="bars"><tbody>{"".join(rows)}</tbody></table>'


def _shortened(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else label[: _MAX_LABEL - 1] + "…"


def _picture(picture: Picture, zoom_id: str) -> str:
    """Return a figure; a click, or Space on it, enlarges it and shrinks it again."""

    def data(png: bytes) -> str:
        return f"data:image/png;base64,{base64.b64encode(png).decode()}"

    dark = ""
    if picture.dark:
        dark = (
            '<source media="screen and (prefers-color-scheme: dark)" '
            f'srcset="{data(picture.dark)}">'
        )
    caption = f"<figcaption>{xml(picture.caption)}</figcaption>"
    return (
        f"<figure><h3>{xml(picture.title)}</h3>"
        f'<input type="checkbox" class="zoom" id="{zoom_id}" '
        f'aria-label="Enlarge {_text(picture.title)}">'
        f'<label class="frame" for="{zoom_id}"><span class="picture"><picture>{dark}'
        f'<img alt="{_text(picture.caption or picture.title)}" '
        f'src="{data(picture.light)}"></picture>{_spots(picture)}</span></label>'
        f"{caption if picture.caption else ''}</figure>"
    )


def spot_markup(spot: HitRegion) -> str:
    """Return a rectangle that says its text, as `report_html` writes it."""
    return (
        f'<rect x="{spot.x:.2f}" y="{spot.y:.2f}" width="{spot.width:.2f}" '
        f'height="{spot.height:.2f}"><title>{_text(spot.text)}</title></rect>'
    )


def _spots(picture: Picture) -> str:
    if not picture.spots:
        return ""
    width, height = picture.extent
    return (
        f'<svg class="spots" viewBox="0 0 {width:.2f} {height:.2f}" '
        'preserveAspectRatio="none" role="presentation">'
        f"{''.join(map(spot_markup, picture.spots))}</svg>"
    )
