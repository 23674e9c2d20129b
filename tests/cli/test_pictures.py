"""``show``, ``export`` and ``self-test``: pictures without a display."""

import json
import os
import shutil
from pathlib import Path

import pytest

import ggscope
from builders import llama_like_trace, npu_like_trace
from ggscope.exporters.ascii import ascii_timeline
from ggscope.model.units import TimeRange
from statements import new_statement, new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"

PNG = b"\x89PNG\r\n\x1a\n"


def png_size(path):
    head = path.read_bytes()[:24]
    assert head.startswith(PNG)
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_show_prints_the_ascii_timeline(run, built):
    result = run("show", "--ascii", built("npu_like_trace"), "--width", "80")

    assert result.code == 0
    assert result.out == ascii_timeline(npu_like_trace(), width=80)


def test_show_takes_range_and_colours(run, built):
    result = run(
        "show", built(), "--width", "70", "--range", "1ms:2ms", "--color-by", "layer"
    )

    assert result.out == ascii_timeline(
        llama_like_trace(),
        width=70,
        visible=TimeRange(1_000_000, 2_000_000),
        by="layer",
    )


def test_show_json_holds_the_lines(run, built):
    value = json.loads(run("show", built(), "--json", "--width", "70").out)

    assert value["lines"][0].startswith("llama.bin: 0.0")


def test_show_with_a_wrong_range_is_an_error(run, built):
    result = run("show", built(), "--range", "5")

    assert result.code == 2
    assert "has no colon" in result.err


def test_export_writes_a_png_of_the_size_asked_for(shell, built, tmp_path):
    target = tmp_path / "x.png"

    result = shell(
        "export",
        built(),
        "--view",
        "timeline",
        "-o",
        target,
        "--size",
        "640x360",
        "--dpi",
        "192",
        "--range",
        ":2ms",
        "--where",
        "layer=1",
        "--title",
        "A run",
    )

    assert result.code == 0, result.err
    assert png_size(target) == (1280, 720)
    assert result.out == ""
    assert "x.png written" in result.err


def test_export_writes_an_svg_with_its_title(shell, built, tmp_path):
    target = tmp_path / "x.svg"

    result = shell("export", built(), "-o", target, "--title", "A <run>", "--json")

    text = target.read_text("utf-8")
    assert result.code == 0, result.err
    assert "A &lt;run&gt;" in text
    assert text.count("<rect") + text.count("<path") > 20
    assert json.loads(result.out)["output"] == str(target)


def test_export_of_several_files_fills_a_folder(shell, built, tmp_path):
    folder = tmp_path / "figures"
    files = [built(), built("npu_like_trace")]

    result = shell("export", *files, files[0], "-o", folder, "--size", "400x300")

    assert result.code == 0, result.err
    assert sorted(p.name for p in folder.iterdir()) == [
        "llama_like_trace.timeline.png",
        "npu_like_trace.timeline.png",
    ]


def test_export_of_several_files_into_one_is_a_usage_error(run, built, tmp_path):
    result = run("export", built(), built("npu_like_trace"), "-o", tmp_path / "x.png")

    one = run("export", built(), "-o", tmp_path / "x.svg", "--size", "400x300")
    assert (result.code, one.code) == (2, 0)
    assert new_statement(result.err, one.err)
    assert "several files need a folder: -o DIR/" in result.err


@pytest.mark.parametrize(("name", "code"), [("x.bmp", 2), ("missing/x.png", 1)])
def test_export_that_cannot_be_written_is_an_error(shell, built, tmp_path, name, code):
    result = shell("export", built(), "-o", tmp_path / name)

    assert result.code == code
    assert "Traceback" not in result.err


def test_export_of_an_unknown_file_exits_with_three(shell, tmp_path):
    path = tmp_path / "noise.bin"
    path.write_bytes(b"plain text, no trace")

    result = shell("export", path, "-o", tmp_path / "x.png")

    assert result.code == 3
    assert not (tmp_path / "x.png").exists()


def test_self_test_passes_without_a_display(shell):
    result = shell("self-test")

    assert result.code == 0, result.err
    assert result.out.count(": good") >= 3
    assert result.out.endswith("self-test passed.\n")


def test_export_over_the_trace_itself_is_refused(run, built, tmp_path):
    trace = built().rename(tmp_path / "t.png")
    (tmp_path / "link.svg").symlink_to(trace)
    before = trace.read_bytes()

    for target in (trace, tmp_path / "link.svg"):
        result = run("export", trace, "-o", target)

        assert result.code == 1
        assert "is the trace itself" in result.err
    assert trace.read_bytes() == before
    assert (tmp_path / "link.svg").is_symlink()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--range", "5:1"), 2, "ends before it starts"),
        (("--range", "1us"), 2, "has no colon"),
        (("--view", "pie"), 2, "invalid choice: 'pie'"),
        (("--size", "0x0"), 2, "sides must be from 64"),
        (("--size", "big"), 2, "is not like 1920x1080"),
        (("--dpi", "-1"), 2, "is not a number from 24 to 2400"),
        (("--color-by", "mood"), 2, "invalid choice: 'mood'"),
        (("--where", "mood=1"), 2, "Filter"),
    ],
)
def test_export_with_a_wrong_option_says_which(
    run, built, tmp_path, options, code, message
):
    result = run("export", built(), "-o", tmp_path / "x.png", *options)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "internal error" not in result.err
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("", 2, "the name is empty"),
        ("x.jpg", 2, "a figure can be"),
        ("no/such/folder/x.png", 1, "cannot be written"),
        ("plain", 2, "a figure can be"),
    ],
)
def test_export_to_an_impossible_target_says_why(
    run, built, tmp_path, monkeypatch, target, code, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").write_text("not a folder")

    result = run("export", built(), "-o", target)

    assert (result.code, result.out) == (code, "")
    assert message in result.err


@pytest.mark.parametrize("command", ["info", "check", "stats", "show"])
def test_folder_is_named_in_the_error(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    result = run(command, ".")

    assert result.code == 1
    assert ".: no supported files in it" in result.err


def test_heatmap_of_a_trace_without_tensors_is_refused(run, tmp_path):
    npu, folder = SAMPLES / "npu-prefill-decode.json", tmp_path / "figures"

    alone = run("export", npu, "--view", "heatmap", "-o", tmp_path / "out.png")
    beside = run("export", npu, "--view", "timeline,heatmap", "-o", folder)

    assert (alone.code, beside.code) == (1, 1)
    # All 252 accesses are to DRAM by address, and none names a tensor.
    assert "252 accesses" in alone.err
    assert alone.err.removeprefix("ggscope: ") in beside.err
    assert not (tmp_path / "out.png").exists()
    assert [path.name for path in folder.iterdir()] == [
        "npu-prefill-decode.timeline.png"
    ]


def test_colour_by_what_the_trace_lacks_is_refused(run, built, tmp_path):
    result = run("export", built(), "--color-by", "expert", "-o", tmp_path / "x.svg")

    assert result.code == 2
    assert "names no experts" in result.err
    assert not (tmp_path / "x.svg").exists()
    assert run("show", built(), "--color-by", "backend").code == 2


def test_export_by_preset_has_its_width_and_shows_its_caption(run, built, tmp_path):
    target = tmp_path / "a.png"

    result = run(
        "export", built(), "--preset", "single", "-o", target, "--caption", "-"
    )

    assert result.code == 0
    assert png_size(target)[0] == round(88 / 25.4 * 300)
    assert "Timeline of" in result.out


def test_export_with_lengths_overrides_its_preset(run, built, tmp_path):
    target, caption = tmp_path / "a.png", tmp_path / "a.txt"
    options = ("--width", "2in", "--height", "1in", "--font", "6pt", "--transparent")

    result = run(
        "export", built(), "--preset", "slide", "-o", target, *options,
        "--caption", caption,
    )  # fmt: skip

    assert result.code == 0
    assert png_size(target) == (288, 144)
    assert caption.read_text("utf-8").startswith("Timeline of llama.bin, ")


def test_export_by_an_unknown_preset_names_the_known_ones(run, built, tmp_path):
    result = run("export", built(), "--preset", "poster", "-o", tmp_path / "a.png")

    assert result.code == 2
    assert all(name in result.err for name in ("single", "double", "slide", "readme"))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_export_too_large_to_be_composed_is_refused_with_its_size(
    run, built, tmp_path, suffix
):
    target = tmp_path / f"a{suffix}"

    result = run("export", built(), "--width", "900000mm", "-o", target)

    assert result.code == 1
    assert "A picture of 3401575 × any pixels is too large" in result.err
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--width 10mm", "A width of 38 pixels is too small for a font of 8.25 pt"),
        ("--height 2mm", "A height of 8 pixels is too small for a font of 8.25 pt"),
        ("--width 100px --font 96pt", "Use 931 pixels or more, or a smaller font."),
    ],
)
def test_export_too_small_to_be_read_is_refused_with_what_it_needs(
    run, built, tmp_path, arguments, message
):
    target = tmp_path / "a.png"

    result = run("export", built(), *arguments.split(), "-o", target)

    assert result.code == 1
    assert message in result.err
    assert not target.exists()


def test_export_with_an_option_that_does_not_fit_says_so(run, built, tmp_path):
    options = ("--view", "cache", "--options", '{"capacity": "much"}')
    result = run("export", built("moe_reads()"), *options, "-o", tmp_path / "a.png")
    unknown = run(
        "export", built(), "--options", '{"taste": 1}', "-o", tmp_path / "a.png"
    )

    assert result.code == unknown.code == 1
    assert "--options has a value that does not fit" in result.err
    assert "timeline has no option 'taste'. Options: absolute, " in unknown.err


def test_export_larger_than_memory_is_refused_with_its_size(
    run, built, tmp_path, monkeypatch
):
    from ggscope.render import export

    monkeypatch.setattr(export, "available_bytes", lambda: 1 << 20)
    result = run("export", built(), "--size", "2000x1000", "-o", tmp_path / "a.png")

    assert result.code == 1
    assert "2000 × 1000 pixels needs 15.3 MiB of memory; 1.0 MiB are free" in result.err


def test_several_views_of_several_files_go_into_a_folder(run, tmp_path) -> None:
    files = [SAMPLES / "tinyllama-256.bin", SAMPLES / "llama.ggmlviz"]
    out = tmp_path / "out"

    result = run("export", "--view", "timeline,hot", *files, "-o", out, "--json")

    first, second = json.loads(result.out)
    assert result.code == 1, "one has nothing to draw"
    assert "hot: " in result.err
    assert sorted(p.name for p in out.iterdir()) == [
        "llama.timeline.png",
        "tinyllama-256.hot.png",
        "tinyllama-256.timeline.png",
    ]
    assert [f["view"] for f in first["figures"]] == ["timeline", "hot"]
    assert "error" in second["figures"][1]
    alone = tmp_path / "alone.png"
    run("export", "--view", "hot", files[0], "-o", alone)
    assert (out / "tinyllama-256.hot.png").read_bytes() == alone.read_bytes()


def test_figures_of_files_of_one_stem_say_which_file_they_are_of(run, tmp_path):
    names = [tmp_path / "a" / "t.bin", tmp_path / "a" / "t.ggmlviz",
             tmp_path / "b" / "t.bin", tmp_path / "b" / "alone.bin"]  # fmt: skip
    for name in names:
        name.parent.mkdir(exist_ok=True)
        sample = "llama.ggmlviz" if name.suffix == ".ggmlviz" else "tinyllama-256.bin"
        shutil.copy(SAMPLES / sample, name)

    result = run("export", *names, "-o", tmp_path / "out")

    assert result.code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "a-t.bin.timeline.png",
        "alone.timeline.png",
        "b-t.bin.timeline.png",
        "t.ggmlviz.timeline.png",
    ]


def test_all_views_are_those_that_show_something(run, tmp_path) -> None:
    result = run(
        "export", "--view", "all", SAMPLES / "llama.ggmlviz", "-o", tmp_path / "out"
    )

    assert result.code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "llama.statistics.png",
        "llama.timeline.png",
        "llama.tokens.png",
    ]


def test_all_views_leave_out_what_shows_nothing_without_a_fault(run, tmp_path) -> None:
    file = SAMPLES / "tinyllama-256.bin"  # its buffers are of no known allocation

    whole = run("export", "--view", "all", file, "-o", tmp_path / "a")
    by_view = run("export", "--view", "buffers", file, "-o", tmp_path / "b")

    assert whole.code == 0
    assert by_view.code == 1
    assert new_statements(whole.err, by_view.err)
    assert "buffers is left out: No allocation of a buffer is recorded" in whole.err
    assert not (tmp_path / "a" / "tinyllama-256.buffers.png").exists()


def test_option_that_a_view_does_not_take_is_not_passed_over(run, tmp_path) -> None:
    file = SAMPLES / "tinyllama-256.bin"
    target = tmp_path / "a.png"

    alone = run("export", "--view", "hot", "--where", "layer=1", file, "-o", target)
    among = run(
        "export", "--view", "timeline,hot", "--where", "layer=1", file,
        "-o", tmp_path / "a",
    )  # fmt: skip

    assert alone.code == 1
    assert among.code == 0
    assert not target.exists()
    refusal = "hot takes no --where. Leave it out, or choose another view."
    assert refusal in alone.err
    assert refusal not in among.err
    assert new_statements(among.err, alone.err)
    assert "note: hot takes no --where; it" in among.err
    assert "timeline takes" not in among.err


def test_figure_of_nothing_says_so(run, built, tmp_path) -> None:
    def error_of(*text: str) -> str:
        result = run("export", built(), *text, "-o", tmp_path / "a.png", "--force")
        assert result.code == 0
        return result.err

    far, here = error_of("--range", "5s:6s"), error_of("--range", ":1ms")
    assert new_statement(far, here)
    none, some = error_of("--where", "layer=9999"), error_of("--where", "layer=0")
    assert new_statement(none, some)


def test_batch_goes_on_where_it_was_left(run, tmp_path) -> None:
    out = tmp_path / "out"
    command = ("export", "--view", "timeline,hot", SAMPLES / "tinyllama-256.bin")
    run(*command, "-o", out)
    (out / "tinyllama-256.hot.png").unlink()
    path = out / "tinyllama-256.timeline.png"
    path.write_bytes(b"mine")

    refused = run(*command, "-o", out)
    resumed = run(*command, "-o", out, "--resume")

    assert refused.code == 1
    assert resumed.code == 0
    assert path.read_bytes() == b"mine"
    assert (out / "tinyllama-256.hot.png").stat().st_size > 1000
    assert new_statements(resumed.err, refused.err)
    assert "1 of 2 is there already" in resumed.err


def test_several_views_need_a_folder(run, tmp_path) -> None:
    sample = SAMPLES / "tinyllama-256.bin"

    result = run("export", "--view", "timeline,hot", sample, "-o", tmp_path / "a.png")

    assert result.code == 2
    assert "several views need a folder: -o DIR/" in result.err
    assert run("export", "--view", "timeline,pie", sample, "-o", tmp_path).code == 2


def _keep_bookmark(path, place, color="red"):
    """Store a bookmark of a trace beside it, or in the data folder of the tests."""
    from ggscope.session.bookmarks.bookmarks import Bookmark
    from ggscope.session.bookmarks.files import BookmarkSet, Entry, to_bytes
    from ggscope.session.bookmarks.fingerprint import fingerprint

    of, origin = fingerprint(path), ggscope.open(path).clock.origin
    time = TimeRange(10, 5_000).shifted(origin)  # files have the trace's own clock
    mark = Bookmark("slow", time, note="<why> & how", color=color)
    content = to_bytes(BookmarkSet((Entry(mark, 1),)), of, "ns", path.name)
    if place == "beside":
        target = path.with_name(path.name + ".ggscope.json")
    else:
        folder = Path(os.environ["XDG_DATA_HOME"]) / "ggscope" / "bookmarks"
        folder.mkdir(parents=True)
        target = folder / f"{of.head}-{of.digest}.json"
    target.write_bytes(content)
    return target


@pytest.mark.parametrize("place", ["beside", "profile"])
def test_figure_has_the_stored_notes_unless_left_out(
    run, tmp_path, monkeypatch, place
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = Path(shutil.copy(ROOT / "resources/samples/llama.ggmlviz", tmp_path))
    _keep_bookmark(path, place)
    with_notes, without = tmp_path / "a.svg", tmp_path / "b.svg"

    assert run("export", path, "--view", "timeline", "-o", with_notes).code == 0
    more = ("--no-notes", "-o", without)
    assert run("export", path, "--view", "timeline", *more).code == 0

    assert "slow: &lt;why&gt; &amp; how" in with_notes.read_text()
    assert "slow" not in without.read_text()


def test_notes_of_the_options_replace_the_stored_ones(run, tmp_path) -> None:
    path = Path(shutil.copy(ROOT / "resources/samples/llama.ggmlviz", tmp_path))
    _keep_bookmark(path, "beside")
    out = tmp_path / "a.svg"
    given = {"notes": [["old", [0, 9]], ["new", [0, 9], "text", "blue"]]}

    args = ("--options", json.dumps(given), "-o", out)
    assert run("export", path, "--view", "timeline", *args).code == 0

    text = out.read_text()
    assert ("old" in text, "new: text" in text) == (True, True)
    assert "slow" not in text


@pytest.mark.parametrize(
    "content", [b"{", b"{}", b'{"ggscope": "bookmarks", "version": 2}']
)
def test_bookmark_file_that_cannot_be_read_is_reported_and_stays(
    run, tmp_path, content
) -> None:
    path = Path(shutil.copy(ROOT / "resources/samples/llama.ggmlviz", tmp_path))
    plain = run("export", path, "--view", "timeline", "-o", tmp_path / "a.svg")
    side = path.with_name(path.name + ".ggscope.json")
    side.write_bytes(content)

    result = run("export", path, "--view", "timeline", "-o", tmp_path / "b.svg")

    assert result.code == 0
    assert new_statements(result.err, plain.err)
    assert side.read_bytes() == content
