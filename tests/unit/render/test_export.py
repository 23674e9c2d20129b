import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

import pictures
from builders import empty_trace, llama_like_trace
from figures import export
from ggscope.errors import ExportError
from ggscope.render.batch import DisplayList
from ggscope.render.export import (
    ensure_gui_application,
    export_display_list,
    render_image,
)
from ggscope.render.look import Look
from ggscope.render.timeline.figure import timeline_figure
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
    words = ["".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")]
    assert "412.5 ms" in words
    assert root.get("viewBox") == "0 0 220 180"


def test_svg_keeps_rectangles_as_shapes_and_columns_as_one_picture(
    tmp_path: Path,
) -> None:
    target = tmp_path / "figure.svg"

    export_display_list(pictures.everything(), target)

    root = ET.fromstring(target.read_text("utf-8"))
    in_patterns = {
        image
        for pattern in root.iter(f"{SVG}pattern")
        for image in pattern.iter(f"{SVG}image")
    }
    images = [image for image in root.iter(f"{SVG}image") if image not in in_patterns]
    assert len(images) == 1
    assert len(list(root.iter(f"{SVG}rect"))) >= 5
    assert len(list(root.iter(f"{SVG}clipPath"))) >= 1


def test_pdf_is_one_of_the_size_of_the_picture(tmp_path: Path) -> None:
    target = tmp_path / "figure.PDF"

    export_display_list(pictures.everything(), target, title="T")

    content = target.read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/MediaBox [0 0 165" in content


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
    failing = pytest.raises(ExportError, match="larger than files may be here")
    with small_files(100), failing:
        export_display_list(pictures.everything(), tmp_path / f"figure{suffix}")

    assert not list(tmp_path.iterdir())


def test_present_figure_is_replaced_only_if_it_may_be(tmp_path: Path) -> None:
    target = tmp_path / "figure.png"
    target.write_bytes(b"old")

    with pytest.raises(ExportError, match="exists already"):
        export_display_list(pictures.everything(), target, overwrite=False)
    kept = target.read_bytes()
    export_display_list(pictures.everything(), target)

    assert kept == b"old"
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

    export(timeline_figure, llama_like_trace(), target, size=(800, 450), theme="print")

    assert target.stat().st_size > 4_000


def test_svg_of_a_timeline_holds_its_names_as_text(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export(timeline_figure, llama_like_trace(), target, title="My run")

    root = ET.fromstring(target.read_text("utf-8"))
    words = {"".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")}
    assert {"My run", "Threads", "thread 0", "prompt", "matmul"} <= words
    assert root.findtext(f"{SVG}title") == "My run"


def test_families_of_an_svg_end_with_one_that_every_browser_has(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export(timeline_figure, llama_like_trace(), target)

    root = ET.fromstring(target.read_text("utf-8"))
    families = {n.get("font-family") for n in root.iter() if n.get("font-family")}
    assert families
    for family in families:
        names = [name.strip(" '") for name in family.split(",")]
        assert names[-1] in ("sans-serif", "monospace")
        assert not {"Sans Serif", "Monospace"} & set(names), "names of Qt, not of CSS"


def test_timeline_of_chosen_lanes_shows_only_those(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export(timeline_figure, llama_like_trace(), target, lanes=["thread:thread 1"])

    text = target.read_text("utf-8")
    assert "thread 1" in text
    assert "thread 0" not in text


def test_unknown_lane_is_named_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"no lane 'nope'.*thread:thread 0"):
        export(timeline_figure, llama_like_trace(), tmp_path / "x.png", lanes=["nope"])


def test_untitled_figure_has_neither_title_nor_legend(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    look = Look(title="", legend=False)
    timeline_figure(llama_like_trace()).write(target, look)

    root = ET.fromstring(target.read_text("utf-8"))
    words = {"".join(node.itertext()).strip() for node in root.iter(f"{SVG}text")}
    assert "matmul" not in words
    assert root.findtext(f"{SVG}title") == "llama.bin · test"


def test_empty_trace_makes_a_figure_that_says_so(tmp_path: Path) -> None:
    target = tmp_path / "figure.svg"

    export(timeline_figure, empty_trace(), target)

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
