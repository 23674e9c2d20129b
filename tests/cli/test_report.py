"""``ggscope report``: one page about a trace, opens offline and runs nothing."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import log_files
from ggscope.cli import report as made
from ggscope.exporters.report import (
    MAX_BYTES,
    Bar,
    Cell,
    HitRegion,
    Picture,
    ReportTable,
    Section,
    report_html,
)
from ggscope.model.units import format_number
from hostile_names import CONTROLS, MARKUP, hostile_named
from statements import new_statement, new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
ATTACK = '"><script>document.title="PWNED"</script><img src=x onerror=alert(1)>\'&'
_VOID = ("meta", "img", "source", "input", "!doctype")


class Page(HTMLParser):
    """What stands in a page: its tags with attributes, and its texts by tag."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        tag = self._open[-1] if self._open else ""
        self.texts.setdefault(tag, []).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.tags if name == tag]


def page_of(path: Path) -> Page:
    return Page(path.read_bytes())


def is_safe(page: Page) -> None:
    """Hold that nothing is loaded and only the page's own script can run."""
    assert len(page.of("script")) == 1
    assert {tag for tag, _ in page.tags} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "section",
        "pre", "p", "figure", "picture", "source", "img", "figcaption", "svg", "g",
        "text", "rect", "div", "table", "thead", "tbody", "tr", "th", "td", "script",
        "nav", "ul", "li", "a", "dl", "dt", "dd", "caption", "input", "label", "span",
    }  # fmt: skip
    for tag, given in page.tags:
        assert not [name for name in given if name.startswith("on") or name == "style"]
        for name in ("src", "srcset"):
            assert given.get(name, "data:image/png;").startswith("data:image/png;"), tag
        assert given.get("href", "#part-1").startswith("#part-")
        assert not {"xlink:href", "background", "action"} & set(given)


def test_report_of_every_sample_is_whole_small_and_loads_nothing(run, tmp_path) -> None:
    for sample in ("llama.ggmlviz", "npu-prefill-decode.json"):
        target = tmp_path / f"{sample}.html"

        result = run("report", SAMPLES / sample, "-o", target)

        assert (result.code, result.out) == (0, "")
        assert target.stat().st_size < MAX_BYTES
        page = page_of(target)
        is_safe(page)
        titles = page.texts["h2"]
        assert titles[:3] == ["What took the time", "Figures", "Statistics"]
        assert titles[-3:] == ["Problems", "File details", "How this was made"]
        assert sample in page.texts["title"][0]


def test_summary_is_what_info_says_and_problems_are_those_of_check(
    run, built, tmp_path
) -> None:
    path = built("llama_like_trace", "ERROR", "DATA_LOSS")
    target = tmp_path / "r.html"
    info = run("info", path).out.partition("\nProblems")[0].strip()

    run("report", path, "-o", target, "--view", "timeline", "--with-folders")

    page = page_of(target)
    assert page.texts["pre"] == [info]
    problems = run("check", path, "--json").out
    for warning in json.loads(problems)["warnings"]:
        assert warning["code"] in page.texts["td"]
        assert warning["message"] in page.texts["td"]


def test_report_begins_with_what_took_the_time(run, tmp_path) -> None:
    target, path = tmp_path / "r.html", SAMPLES / "tinyllama-256.bin"
    run("report", path, "-o", target, "--view", "timeline")
    rows = json.loads(run("stats", path, "--json").out)["rows"]
    phases = json.loads(run("info", path, "--json").out)["latency"]
    page = page_of(target)
    text = target.read_text()

    first = text[text.index('id="part-1"') : text.index('id="part-2"')]
    bars = re.findall('<th scope="row">(.*?)</th>', first)
    assert bars == [row["key"] for row in rows if row["timed"]][:16]
    widths = re.findall('<rect width="(.*?)" height="1">', first)
    longest = rows[0]["total_ns"]
    for width, row in zip(widths, rows, strict=False):
        assert float(width) == pytest.approx(100 * row["total_ns"] / longest, abs=0.01)
    facts = dict(zip(page.texts["dt"], page.texts["dd"], strict=True))
    (generate,) = (phase for phase in phases if phase["phase"] == "generate")
    assert facts["Generate"].startswith(
        f"{format_number(generate['tokens_per_s'])} tokens/s"
    )
    assert facts["Top op"].startswith(rows[0]["key"])
    assert facts["Problems"] == "1 kind"


def test_contents_list_leads_to_every_section(run, built, tmp_path) -> None:
    target = tmp_path / "r.html"
    run("report", built(), "-o", target, "--view", "timeline")
    page = page_of(target)

    assert page.texts["a"] == page.texts["h2"]
    links = [given["href"] for given in page.of("a")]
    assert links == [f"#{given['id']}" for given in page.of("h2")]
    # A check box enlarges a figure, without a script.
    boxes = {given["id"] for given in page.of("input")}
    assert {given["for"] for given in page.of("label")} == boxes
    n_plain = len([g for g in page.of("table") if g.get("class") != "bars"])
    assert len(page.texts["caption"]) == n_plain


def test_every_digit_is_there_with_and_without_the_script(run, tmp_path) -> None:
    target = tmp_path / "r.html"
    sample = SAMPLES / "llama.ggmlviz"
    run("report", sample, "-o", target, "--view", "timeline")
    rows = json.loads(run("stats", sample, "--json").out)["rows"]

    cells = [given for given in page_of(target).of("td") if "data-exact" in given]

    assert cells
    assert all(given["title"] == given["data-exact"] for given in cells)
    digits = {re.sub(r"\D", "", given["data-exact"]).lstrip("0") for given in cells}
    assert {str(row["total_ns"]) for row in rows} <= digits


@pytest.mark.parametrize("sample", ["tinyllama-256.bin", "npu-prefill-decode.json"])
def test_tables_and_notes_are_those_of_stats(run, tmp_path, sample) -> None:
    target, path = tmp_path / "r.html", SAMPLES / sample
    run("report", path, "-o", target, "--view", "timeline")
    page = page_of(target)

    for by in ("op", "lane"):
        result = run("stats", path, "--by", by, "--wide")
        head, *rows = (re.split(r"  +", line) for line in result.out.splitlines())
        notes = re.findall("(?m)^ggscope: note: (.*)$", result.err)
        begin = page.texts["th"].index(head[0])

        assert page.texts["th"][begin : begin + len(head)] == head
        assert len(rows) >= 4
        assert {cell for row in rows for cell in row} <= set(page.texts["td"])
        notes = [note for note in notes if not note.startswith("times exclude")]
        assert len(notes) >= 2
        assert set(notes) <= set(page.texts["p"])


def test_report_shows_how_it_was_made(run, tmp_path) -> None:
    target, path = tmp_path / "it's.html", tmp_path / "x.ggmlviz"
    shutil.copy(SAMPLES / "llama.ggmlviz", path)
    run("report", path, "-o", target, "--view", "timeline", "--ops", "auto",
        "--with-folders")  # fmt: skip

    text = " ".join(page_of(target).texts["td"])

    assert f"{path};" in text
    texts = f"--ops auto --view timeline -o '{tmp_path}/it'\"'\"'s.html' -- "
    assert f"ggscope report {texts}{path}" in text
    assert f"{path.stat().st_size:,} bytes, changed 2" in text


def test_policy_names_the_script_and_style_that_are_there() -> None:
    text = report_html("t", [Section("s", "text")]).decode()
    (policy,) = (
        given["content"]
        for given in Page(text.encode()).of("meta")
        if given.get("http-equiv") == "Content-Security-Policy"
    )

    for tag in ("script", "style"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy


def attacked() -> bytes:
    bar = Bar(ATTACK, 2.0, ATTACK, ATTACK)
    row = [Cell(ATTACK, ATTACK, ATTACK), Cell(ATTACK)]
    picture = Picture(
        ATTACK, b"", b"", ATTACK, (9, 9), (HitRegion(1, 2, 3, 4, ATTACK),)
    )
    table = ReportTable(ATTACK, (ATTACK, ATTACK), [row], notes=(ATTACK,))
    return report_html(
        ATTACK, [Section(ATTACK, ATTACK, (ATTACK,), (bar,), (picture,), (table,))]
    )


def test_whatever_is_put_in_is_text() -> None:
    page = Page(attacked())

    is_safe(page)
    assert ATTACK in page.texts["td"]


@pytest.mark.parametrize("texts", [MARKUP, CONTROLS], ids=["markup", "controls"])
def test_hostile_names_are_text_in_the_page(run, tmp_path, texts) -> None:
    for reader in ("ggmlviz", "npu-json", "graph-json"):
        path = hostile_named(tmp_path / reader, texts)[reader]
        target = tmp_path / f"{reader}.html"

        assert run("report", path, "-o", target, "--view", "timeline").code == 0

        page = page_of(target)
        is_safe(page)
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", target.read_text()
        )


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here")
def test_browser_runs_no_script_of_a_name_and_the_own_one(tmp_path) -> None:
    target = tmp_path / "r.html"
    # One that got past the escaping: the policy holds it.
    content = attacked().replace(b"</body>", b'<script>document.title="PWNED"</script>')
    target.write_bytes(content)

    done = subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", target.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    title = re.search("<title>(.*?)</title>", done.stdout, re.DOTALL)[1]
    assert "PWNED" in title
    assert title.startswith('"&gt;&lt;script&gt;')  # as it was written, not as it ran
    assert 'id="tip"' in done.stdout  # the page's own script


def test_texts_of_any_length_stay_below_the_limit() -> None:
    long = "x" * 1_000_000
    table = ReportTable("t", (long,), [[Cell(long, long)]] * 10)

    assert len(report_html(long, [Section("s", tables=(table,))])) < 20_000


def test_pictures_that_do_not_fit_are_drawn_smaller_or_named(
    run, built, tmp_path, monkeypatch
) -> None:
    target, path = tmp_path / "r.html", built()
    sides = {}

    def size_of(value: int) -> int:
        monkeypatch.setattr(made, "_PICTURE_BYTES", value)
        run("report", path, "-o", target, "--force", "--view", "timeline")
        page = page_of(target)
        sides[value] = page.texts.get("p", [])
        return sum(len(given["src"]) for given in page.of("img"))

    whole = size_of(1_000_000)
    smaller = size_of(whole)  # both schemes took about twice as much

    assert whole > smaller > 0
    assert size_of(10) == 0
    assert new_statements("\n".join(sides[10]), "\n".join(sides[whole]))


def spots_of(target: Path) -> list[tuple[float, float, float, float, str]]:
    """Return x, y, width, height and words of what can be pointed at."""
    (drawn,) = re.findall(
        r'<svg class="spots".*?</svg>', target.read_text("utf-8"), re.DOTALL
    )
    number = r'"([-\d.]+)"'
    pattern = (
        f"<rect x={number} y={number} width={number} height={number}>"
        "<title>(.*?)</title></rect>"
    )
    spots = [(*map(float, one[:4]), one[4]) for one in re.findall(pattern, drawn)]
    assert len(spots) == drawn.count("<rect")
    return spots


def test_boxes_of_the_timeline_show_their_exact_times_where_they_are(
    run, tmp_path
) -> None:
    path, target = SAMPLES / "llama.ggmlviz", tmp_path / "r.html"

    run("report", path, "-o", target, "--view", "timeline")
    spots = spots_of(target)
    boxes = {}
    for x, _, width, _, texts in spots:
        match = re.search(r": ([\d.\s]+)\ss, \w+, begins ([\d.\s]+)\ss$", texts)
        assert match is not None, texts
        length, begins = (float(re.sub(r"\s", "", text)) for text in match.groups())
        boxes[begins] = (x, length, width)

    first, last = min(boxes), max(boxes)
    per_second = (boxes[last][0] - boxes[first][0]) / (last - first)
    for begins, (x, length, width) in boxes.items():
        # Boxes cover the columns that a span fills alone: up to one less at each end.
        assert abs(boxes[first][0] + (begins - first) * per_second - x) < 3
        assert -3 < length * per_second - width < 4
    captions = "".join(page_of(target).texts["figcaption"])
    assert f"Hover for exact values: {len(spots)} spans." in captions


def test_boxes_beyond_their_room_are_left_out_and_counted(
    run, tmp_path, monkeypatch
) -> None:
    path, target = SAMPLES / "llama.ggmlviz", tmp_path / "r.html"

    def made_with(value: int) -> tuple[list, str]:
        monkeypatch.setattr(made, "_SPOT_BYTES", value)
        run("report", path, "-o", target, "--view", "timeline", "--force")
        return spots_of(target), "".join(page_of(target).texts["figcaption"])

    every, all_of_them = made_with(600_000)
    few, some = made_with(2_000)

    assert 0 < len(few) < len(every)
    assert (
        min(w for _, _, w, *_ in few) >= sorted(w for _, _, w, *_ in every)[-len(few)]
    )
    assert f"the widest {len(few)} of {len(every)} spans." in some
    assert new_statement(some, all_of_them)
    run("report", path, "-o", target, "--view", "buffers", "--force")
    texts = page_of(target).texts
    none = "".join(texts.get("figcaption", []) + texts["p"])
    assert new_statements(all_of_them, none)


def test_cells_and_tensors_show_what_the_tables_have(run, tmp_path) -> None:
    path, target = SAMPLES / "moe-experiment", tmp_path / "r.html"

    run("report", path, "-o", target, "--view", "heatmap")
    tensors = spots_of(target)
    run("report", path, "-o", target, "--view", "experts", "--force")
    cells = spots_of(target)
    hot = json.loads(run("hot", path, "--by", "tensor", "--json", "--limit", 9999).out)

    rows = {row["key"]: row for row in hot["rows"]}
    value = 0
    for *_, text in tensors:
        name, _, texts = text.partition(": ")
        row = rows.get(name)
        if row is None or not texts.startswith("accesses "):
            continue
        value += 1
        numbers = re.match(r"accesses ([\d,]+), bytes ([\d,]+)", texts)
        assert [int(n.replace(",", "")) for n in numbers.groups()] == [
            row["accesses"], row["bytes"],
        ]  # fmt: skip
    assert value > 5
    texts = {text.partition(": ")[2] for *_, text in tensors}
    known = next(text for text in texts if "perhaps" not in text)
    open_ = next(text for text in texts if not text.startswith("accesses "))
    assert new_statements(open_, known)
    layers = {text.split(",")[0] for *_, text in cells}
    assert layers == {"layer 0", "layer 1", "layer 2", "layer 3"}


def test_what_is_no_page_or_there_already_is_refused(run, built, tmp_path) -> None:
    path = built()
    taken = tmp_path / "r.html"
    taken.write_text("mine")

    assert run("report", path, "-o", tmp_path / "r.pdf").code == 2
    assert "exists already" in run("report", path, "-o", taken).err
    assert taken.read_text() == "mine"
    assert run("report", path, "-o", taken, "--view", "nosuch").code == 2
    assert run("report", tmp_path / "none.bin", "-o", tmp_path / "n.html").code == 1
    assert not (tmp_path / "n.html").exists()


def test_claims_of_a_report_are_made_where_they_are_true(run, built, tmp_path) -> None:
    target = tmp_path / "r.html"

    def shown(path: Path) -> str:
        run("report", path, "-o", target, "--force", "--view", "timeline")
        texts = page_of(target).texts
        return "\n".join(texts["td"] + texts.get("p", []))

    sample, unfinished = SAMPLES / "llama.ggmlviz", SAMPLES / "tinyllama-256.bin"
    assert "unfinished spans" in shown(unfinished)
    assert "unfinished spans" not in shown(built())
    assert "size and date unknown" in shown(built()), "a built trace names no file"
    assert "size and date unknown" not in shown(sample)


def test_json_shows_what_was_written(run, built, tmp_path) -> None:
    target = tmp_path / "r.html"
    result = run("report", built(), "-o", target, "--json", "--view", "timeline")

    value = json.loads(result.out)
    assert value["output"] == str(target)
    assert value["bytes"] == target.stat().st_size


def test_trace_without_spans_has_a_report_too(run, tmp_path) -> None:
    target = tmp_path / "r.html"
    model = next((SAMPLES / "moe-experiment").glob("*.gguf"))

    assert run("report", model, "-o", target).code == 0

    page = page_of(target)
    assert "Statistics" not in page.texts["h2"]
    assert "Timeline" not in page.texts.get("h3", [])


def test_report_above_the_limit_is_written_and_says_so(
    run, tmp_path, monkeypatch
) -> None:
    def shown(limit: int) -> str:
        monkeypatch.setattr(made, "MAX_BYTES", limit)
        sample = SAMPLES / "llama-demo.ggmlviz"
        result = run("report", sample, "-o", tmp_path / f"{limit}.html")
        assert result.code == 0
        return result.err

    assert new_statements(shown(1000), shown(5_000_000))


def log_with_secrets(folder: Path) -> Path:
    """Return a log with the words of a person in every place that can have some."""
    text = log_files.log(log_files.random_requests(1, 6)).decode()
    lines = text.replace("/models/tiny.gguf", "/home/SECRET/models/tiny.gguf").split(
        "\n"
    )
    at = next(i for i, line in enumerate(lines) if "launch_slot_" in line)
    lines[at:at] = [
        "0.00.100.000 W srv  log_server_r: request: POST /v1/chat SECRET: tell me",
        "0.00.100.000 E slot update_slots: id  0 | task 7 | failed: SECRET",
        "0.00.100.000 I srv    operator(): cancel task, id_task = 7, SECRET",
        "0.00.100.000 I system_info: n_threads = 4 / 8 | of /home/SECRET/bin/x | AVX",
        "[GIN] 2026/01/01 - 01:00:04 | 200 |  1.5s |       127.0.0.1 | POST     "
        '"/api/generate?prompt=SECRET"',
    ]
    path = folder / "SECRET" / "server.log"
    path.parent.mkdir()
    path.write_text("\n".join(lines))
    return path


def test_report_of_a_log_names_no_person_and_no_prompt(run, tmp_path) -> None:
    path = log_with_secrets(tmp_path)
    target = tmp_path / "r.html"

    assert run("report", path, "-o", target).code == 0

    page = target.read_text("utf-8")
    assert "SECRET" not in page
    assert "tiny.gguf" in page
    assert "n_threads = 4 / 8" in page
    assert "POST /api/generate · 200" in page
    assert "size and date unknown" not in page

    assert run("report", path, "-o", target, "--with-folders", "--force").code == 0

    page = target.read_text("utf-8")
    assert "/home/SECRET/models/tiny.gguf" in page
    assert "tell me" not in page


def test_report_of_a_route_trace_names_no_person(run, tmp_path) -> None:
    folder = tmp_path / "SECRET"
    folder.mkdir()
    path, target = folder / "route.csv", folder / "r.html"
    path.write_text(
        "# route_trace v1\n# model=/home/SECRET/models/tiny.gguf n_layer=1\n"
        "turn,phase,step,layer,slot,expert,weight\n0,0,0,0,0,1,0.5\n"
    )
    report = ("report", path, "-o", target, "--view", "experts", "--force")

    assert run(*report).code == 0

    page = target.read_text("utf-8")
    assert "SECRET" not in page
    assert "tiny.gguf" in page
    assert "size and date unknown" not in page

    assert run(*report, "--with-folders").code == 0

    page = target.read_text("utf-8")
    assert "/home/SECRET/models/tiny.gguf" in page
    assert str(path) in page


@pytest.mark.parametrize(
    ("form", "suffix"),
    [
        ("chrome-json", ".json"), ("csv", ".csv"), ("json", ".json"),
        ("markdown", ".md"), ("folded", ".txt"), ("tsv", ".tsv"),
    ],
)  # fmt: skip
def test_log_in_another_format_names_no_person_and_no_prompt(
    run, tmp_path, form: str, suffix: str
) -> None:
    path = log_with_secrets(tmp_path)
    target = tmp_path / f"out{suffix}"

    assert run("convert", path, "--to", form, "-o", target).code == 0

    content = target.read_text("utf-8")
    assert "SECRET" not in content
    assert "prompt" in content


def test_figure_of_a_log_names_no_person_and_no_prompt(run, tmp_path) -> None:
    path = log_with_secrets(tmp_path)
    target = tmp_path / "out.svg"

    assert run("export", path, "--view", "timeline", "-o", target).code == 0

    assert "SECRET" not in target.read_text("utf-8")
