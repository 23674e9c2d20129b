import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

import pictures
from builders import empty_trace, llama_like_trace
from figures import export
from ggscope.errors import ExportError
from ggscope.render import painter
from ggscope.render.batch import DisplayList, ImageBatch, Pattern
from ggscope.render.export import (
    ensure_gui_application,
    export_display_list,
    render_image,
)
from ggscope.render.figure_style import FigureStyle, Length, preset
from ggscope.render.timeline.figure import timeline_figure
from pictures import BLUE, ORANGE
from support import small_files

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


@pytest.mark.parametrize("dpi", [96, 144, 200])
def test_png_has_the_pixels_and_dots_per_inch_that_were_asked_for(
    tmp_path: Path, dpi: int
) -> None:
    target = tmp_path / "figure.png"

    export_display_list(pictures.everything(dpi / 96), target, title="T", dpi=dpi)

    image = QImage(str(target))
    assert (image.width(), image.height()) == (
        round(220 * dpi / 96),
        round(180 * dpi / 96),
    )
    assert image.dotsPerMeterX() == pytest.approx(dpi / 0.0254, rel=0.01)
    assert image.text("Title") == "T"


def test_svg_is_valid_keeps_text_and_names_itself(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export_display_list(
        pictures.everything(), target, title='a <"&> b', description="What it is."
    )

    root = ET.fromstring(target.read_text("utf-8"))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == 'a <"&> b'
    assert root.findtext(f"{SVG}desc") == "What it is."
    texts = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    assert "412.5 ms" in texts
    assert root.get("viewBox") == "0 0 220 180"


def svg_of(picture: DisplayList, folder: Path) -> ET.Element:
    target = folder / "figure.svg"
    export_display_list(picture, target)
    return ET.fromstring(target.read_text("utf-8"))


def test_few_columns_and_patterns_are_shapes_in_an_svg(tmp_path: Path) -> None:
    root = svg_of(pictures.everything(), tmp_path)

    assert not list(root.iter(f"{SVG}image"))
    assert not list(root.iter(f"{SVG}pattern"))
    assert len(list(root.iter(f"{SVG}rect"))) > 500
    assert len(list(root.iter(f"{SVG}clipPath"))) >= 1


def test_many_columns_are_one_picture_in_an_svg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(painter, "MAX_BOXES", 100)

    root = svg_of(pictures.everything(), tmp_path)

    in_patterns = {
        image
        for pattern in root.iter(f"{SVG}pattern")
        for image in pattern.iter(f"{SVG}image")
    }
    images = [image for image in root.iter(f"{SVG}image") if image not in in_patterns]
    assert len(images) == 1
    assert 5 <= len(list(root.iter(f"{SVG}rect"))) < 100


def test_boxes_of_a_picture_cover_its_texels() -> None:
    """Each texel has the colour of the last box over its middle."""
    rng = np.random.default_rng(4)
    pixels = rng.choice(np.array([0, BLUE, 0x80E69F00, ORANGE], np.uint32), (6, 90))
    pixels[1] = pixels[0]
    tops = np.array([0, 4, 8, 20, 24, 28], np.float32)
    batch = ImageBatch(pixels, 10.0, 55.0, tops, tops + 4)

    boxes = painter.boxes_of(batch)

    for row, column in np.ndindex(pixels.shape):
        x, y = 10 + (column + 0.5) / 2, float(tops[row]) + 2
        over = [color for rect, color in boxes if rect.contains(x, y)]
        assert (over[-1] if over else 0) == pixels[row, column]
        # What lies under a box is hidden by it.
        assert all(color >> 24 == 255 for color in over) or len(over) == 1
    runs = (np.diff(pixels.astype(np.int64), axis=1) != 0).sum() + len(pixels)
    assert len(boxes) < runs


@pytest.mark.parametrize("pattern", [Pattern.HATCH, Pattern.FAINT_HATCH])
def test_lines_of_a_hatch_lie_in_their_boxes_a_period_apart(pattern: Pattern) -> None:
    place = np.array([[3.5, 7.25, 40, 11], [100, 50, 2, 30], [0, 0, 1, 1]], np.float32)

    lines = painter.pattern_marks(place, pattern)

    assert lines is not None
    period = painter.HATCH_PERIOD[pattern]
    for x0, y0, x1, y1 in lines.tolist():
        assert (x0 + y0) % period == pytest.approx(0, abs=1e-9)
        assert x0 + y0 == pytest.approx(x1 + y1)
        assert any(
            x <= x0 < x1 <= x + w and y <= y1 < y0 <= y + h
            for x, y, w, h in place.tolist()
        )
    # 51 pixels along the first, 32 along the second.
    assert abs(len(lines) - (51 + 32) / period) <= 2


@pytest.mark.parametrize("theme", ["print", "light", "dark"])
def test_svg_of_boxes_looks_as_the_png(tmp_path: Path, theme: str) -> None:
    figure = timeline_figure(llama_like_trace())
    style = FigureStyle(theme=theme)
    figure.write(tmp_path / "figure.svg", style)
    expected = figure.image(style)

    image = QImage(expected.size(), QImage.Format.Format_RGB32)
    drawing = QPainter(image)
    QSvgRenderer(str(tmp_path / "figure.svg")).render(drawing)
    drawing.end()

    def channels(of: QImage) -> np.ndarray:
        plain = of.convertToFormat(QImage.Format.Format_RGB32)
        return np.frombuffer(bytes(plain.constBits()), np.uint8).astype(int)

    away = np.abs(channels(image) - channels(expected))
    assert away.mean() / 255 < 0.02  # letters and edges are smoothed otherwise


@pytest.mark.parametrize(("width", "height"), [(88.0, None), (180.0, 97.3)])
def test_pdf_is_as_large_as_was_asked_for(
    tmp_path: Path, width: float, height: float | None
) -> None:
    target = tmp_path / "figure.PDF"
    sides = [None if side is None else Length(side, "mm") for side in (width, height)]
    style = replace(preset("single"), width=sides[0], height=sides[1])

    timeline_figure(llama_like_trace()).write(target, style)

    content = target.read_bytes()
    assert content.startswith(b"%PDF-")
    match = re.search(rb"/MediaBox \[([-.\d ]+)\]", content)
    assert match is not None
    left, low, right, top = map(float, match[1].split())
    assert left == 0
    assert right == pytest.approx(width / 25.4 * 72, abs=1e-3)
    if height is not None:  # a whole number of pixels at 300 dpi
        assert top - low == pytest.approx(height / 25.4 * 72, abs=72 / 300)
    at = int(content[content.rindex(b"startxref") :].split()[1])
    assert content[at : at + 4] == b"xref"


def test_pdf_holds_neither_photographs_nor_pictures_of_few_boxes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = tmp_path / "few.pdf", tmp_path / "many.pdf"
    export_display_list(pictures.everything(), few)
    monkeypatch.setattr(painter, "MAX_BOXES", 100)
    export_display_list(pictures.everything(), many)

    assert b"/Subtype /Image" not in few.read_bytes()
    assert b"/Subtype /Image" in many.read_bytes()
    assert b"DCTDecode" not in few.read_bytes() + many.read_bytes()


def test_pdf_is_the_same_for_the_same_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    one, two, other = (tmp_path / f"{name}.pdf" for name in ("one", "two", "other"))
    for target in (one, two):
        timeline_figure(llama_like_trace()).write(target, preset("single"))
    timeline_figure(llama_like_trace(layers=2)).write(other, preset("single"))

    content = one.read_bytes()
    assert content == two.read_bytes()
    assert b"/CreationDate (D:20010909014640Z)" in content
    assert b'xmp:CreateDate="2001-09-09T01:46:40Z"' in content
    ids = [re.search(rb"uuid:([^\"]+)", f.read_bytes()) for f in (one, other)]
    assert ids[0] is not None
    assert ids[1] is not None
    assert ids[0][1] != ids[1][1]
    at = int(content[content.rindex(b"startxref") :].split()[1])
    assert content[at : at + 4] == b"xref"


def test_date_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")

    with pytest.raises(ExportError, match="'yesterday'"):
        export_display_list(pictures.everything(), tmp_path / "figure.pdf")


def test_pdf_without_a_date_asked_for_is_of_today(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    export_display_list(pictures.everything(), tmp_path / "figure.pdf")

    match = re.search(
        rb"/CreationDate \(D:(\d{8})", (tmp_path / "figure.pdf").read_bytes()
    )
    assert match is not None
    dates = {f"{at:%Y%m%d}".encode() for at in (before, datetime.now(UTC))}
    assert match[1] in dates | {f"{datetime.now():%Y%m%d}".encode()}


def test_unknown_suffix_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"figure\.bmp.*\.png, \.svg or \.pdf"):
        export_display_list(pictures.everything(), tmp_path / "figure.bmp")


def test_missing_folder_is_an_export_error_that_says_where(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "figure.png"

    with pytest.raises(ExportError, match="No such file or directory") as caught:
        export_display_list(pictures.everything(), target)

    assert str(target) in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limits")
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_full_disk_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    failing = pytest.raises(ExportError, match="exceed the size limit")
    with small_files(100), failing:
        export_display_list(pictures.everything(), tmp_path / f"figure{suffix}")

    assert not list(tmp_path.iterdir())


def test_present_figure_is_replaced_only_if_it_may_be(tmp_path: Path) -> None:
    target = tmp_path / "figure.png"
    target.write_bytes(b"old")

    with pytest.raises(ExportError, match="exists already"):
        export_display_list(pictures.everything(), target, overwrite=False)
    entries = target.read_bytes()
    export_display_list(pictures.everything(), target)

    assert entries == b"old"
    assert target.read_bytes().startswith(b"\x89PNG")


def test_existing_figure_survives_a_failure(tmp_path: Path) -> None:
    target = tmp_path / "figure.png"
    target.mkdir()

    with pytest.raises(ExportError):
        export_display_list(pictures.everything(), target)

    assert [path.name for path in tmp_path.iterdir()] == ["figure.png"]


def test_picture_beyond_the_limit_is_refused() -> None:
    with pytest.raises(ExportError, match="too large"):
        render_image(DisplayList(40_000, 10))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_timeline_is_written_as_every_kind_of_figure(
    tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / f"figure{suffix}"

    export("timeline", llama_like_trace(), target, size=(800, 450), theme="print")

    assert target.stat().st_size > 4_000


def test_svg_of_a_timeline_holds_its_names_as_text(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export("timeline", llama_like_trace(), target, title="My run")

    root = ET.fromstring(target.read_text("utf-8"))
    texts = {"".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")}
    assert {"My run", "Threads", "thread 0", "prompt", "matmul"} <= texts
    assert root.findtext(f"{SVG}title") == "My run"


def test_families_of_an_svg_end_with_one_that_every_browser_has(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export("timeline", llama_like_trace(), target)

    root = ET.fromstring(target.read_text("utf-8"))
    families = {n.get("font-family") for n in root.iter() if n.get("font-family")}
    assert families
    for family in families:
        names = [name.strip(" '") for name in family.split(",")]
        assert names[-1] in ("sans-serif", "monospace")
        assert not {"Sans Serif", "Monospace"} & set(names), "names of Qt, not of CSS"


def test_timeline_of_chosen_lanes_shows_only_those(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export("timeline", llama_like_trace(), target, lanes=["thread:thread 1"])

    text = target.read_text("utf-8")
    assert "thread 1" in text
    assert "thread 0" not in text


def test_unknown_lane_is_named_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no lane 'nope'.*thread:thread 0"):
        export("timeline", llama_like_trace(), tmp_path / "x.png", lanes=["nope"])


def test_untitled_figure_has_neither_title_nor_legend(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    style = FigureStyle(title="", legend=False)
    timeline_figure(llama_like_trace()).write(target, style)

    root = ET.fromstring(target.read_text("utf-8"))
    texts = {"".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")}
    assert "matmul" not in texts
    assert root.findtext(f"{SVG}title") == "llama.bin · timeline"


def test_empty_trace_makes_a_figure_that_says_so(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export("timeline", empty_trace(), target)

    assert "holds no spans" in target.read_text("utf-8")


def test_figure_needs_no_display(tmp_path: Path) -> None:
    code = (
        "from builders import llama_like_trace\n"
        "from ggscope.render.timeline.figure import timeline_figure\n"
        f"timeline_figure(llama_like_trace()).write({str(tmp_path / 'a.png')!r})\n"
    )
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    bare = {key: value for key, value in os.environ.items() if key not in hidden}
    bare["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])

    done = subprocess.run(
        [sys.executable, "-c", code], env=bare, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr.decode()
    assert QImage(str(tmp_path / "a.png")).width() == 1600
