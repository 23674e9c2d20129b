"""The timeline of letters: one golden text, and what every picture must keep."""

import re

import numpy as np
import pytest

import ggscope
from builders import (
    empty_trace,
    llama_like_trace,
    npu_like_trace,
    overlapping_trace,
    random_trace,
    spans_trace,
)
from ggscope.exporters.ascii import ascii_timeline
from ggscope.model.units import TimeRange, parse_time, shown_form
from support import ROOT

GOLDEN = """\
run.nputrace.json: 0 cyc to 20,000 cyc, one column = 345 cyc, 144 spans
              0 cyc           5,517 cyc       11,034 cyc      16,551 cyc
              |---------------|---------------|---------------|---------
Tokens
  tokens      0000000000000000000000000000011111111111111111111111111111 100.0 %
  phases      PPPPPPPPPPPPPPPPPPPPPPPPPPPPPEEEEEEEEEEEEEEEEEEEEEEEEEEEEE 100.0 %
Engines
  DMA0        D.dD.dD.dD.dd.dd.Dd.Dd.Dd.D..D.dD.dD.dD.dd.dd.Dd.Dd.Dd.D..  30.0 %
    stalls    !  !  ! !! !! !  !  !  !  !  !  !  ! !! !! !  !  !  !  !
  TE0         tTttTttTttTTT..TT.TT.TT.TTtTttTttTttTttTtTT.TT.TT.TT.TTtTt  50.5 %
              ............TT............................................   2.5 %
  VE0         ..f..v..v..v.vv.vv.vv.vv.v..v..v..v..v..v.vv.vv.vv.vv.v..v  15.0 %
  CTRL        h.h..h..h..h..h..h..h..h..h..h.h..h..h..h..h..h..h..h..h..   2.0 %
  HOST        ..h..h..h..h..h..h..h..h..h.h..h..h..h..h..h..h..h..h..h.h   2.0 %
Stalls
  bus stalls  =..=..=.==.==.=..=..=..=..=..=..=..=.==.==.=..=..=..=..=..   5.0 %

D DMA  T TE  V VE  H HOST, CTRL  F #ff0000 (from the file)  = no op  P prefill
E decode  0-9 last digit of the token  . idle  ! stalled
Capital letters: busy for half of the column or more.
"""


def test_npu_run_looks_like_the_golden_text():
    assert ascii_timeline(npu_like_trace(), width=80) == GOLDEN


@pytest.mark.parametrize("width", [1, 60, 80, 133])
@pytest.mark.parametrize("by", ["family", "op", "layer", "token", "quality"])
def test_picture_is_ascii_and_fits_its_width(width, by):
    text = ascii_timeline(llama_like_trace(layers=40), width=width, by=by)

    lines = text.splitlines()
    assert text.isascii()
    assert all(len(line) <= max(width, 42) for line in lines[1:-1])
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.parametrize(
    "seen", [None, TimeRange(1_000_000, 1_400_000), TimeRange(70_000_000_000, 10**11)]
)
def test_times_are_those_that_the_window_writes(seen):
    trace = llama_like_trace()
    form = shown_form(seen or trace.extent, trace.clock)

    head, scale, *_ = ascii_timeline(trace, visible=seen).splitlines()

    ends = seen or trace.extent
    text = f"{form.text(ends.start)} to {form.text(ends.end)}, "
    assert text.replace("µs", "us") in head
    assert scale.split("  ")[-1].strip()
    assert scale.lstrip().startswith(form.text(ends.start).replace("µs", "us"))
    for tick in scale.strip().split("  "):
        if tick.strip():
            parse_time(tick.strip(), trace.clock)


def lane(text, title):
    (line,) = [x for x in text.splitlines() if x.startswith(f"  {title} ")]
    return line[len(title) + 4 :]


def test_column_is_a_capital_from_half_busy_on_and_a_dot_where_idle():
    trace = spans_trace([0, 100, 200], [50, 149, 201], op=3)

    text = ascii_timeline(trace, width=40, visible=TimeRange(0, 2_000))

    assert lane(text, "thread 0").startswith("Mmm......")


def test_busy_share_is_that_of_the_visible_part():
    trace = spans_trace([0, 100, 200], [50, 150, 300], op=3)

    text = ascii_timeline(trace, width=80, visible=TimeRange(0, 200))

    assert lane(text, "thread 0").endswith(" 50.0 %")


def test_range_shorter_than_its_columns_shows_each_tick():
    trace = spans_trace([0, 5], [1, 6], op=3)

    text = ascii_timeline(trace, width=40, visible=TimeRange(0, 10))

    assert lane(text, "thread 0")[:20] == "MM........MM........"


def test_range_without_length_is_drawn():
    trace = spans_trace([7], [7], op=3)

    assert "thread 0" in ascii_timeline(trace)


def test_trace_without_spans_says_so():
    assert ascii_timeline(empty_trace()) == "test.bin: there are no spans to show.\n"


def test_overlapping_spans_get_rows_and_many_are_summed_up():
    text = ascii_timeline(overlapping_trace(), width=80)

    assert "more rows)" in text


def test_many_categories_share_one_sign():
    names = np.arange(60, dtype=np.int16)
    trace = spans_trace(names * 10, names * 10 + 10, op=1, layer=names)

    text = ascii_timeline(trace, width=150, by="layer")

    assert lane(text, "thread 0").startswith("001122")
    assert "# others" in text


def test_long_lane_titles_are_cut(monkeypatch):
    trace = random_trace(1, 50, lanes=2)
    text = ascii_timeline(trace, width=60)
    monkeypatch.setattr("ggscope.exporters.ascii._MAX_TITLE", 5)

    cut = ascii_timeline(trace, width=60)

    assert "  thread 0 " in text
    assert "  thre~  " in cut


@pytest.mark.parametrize("by", ["family", "op"])
@pytest.mark.parametrize(
    "name", ["npu-prefill-decode.json", "tinyllama-256.bin", "moe-experiment"]
)
def test_no_letter_means_two_things(name: str, by: str) -> None:
    text = ascii_timeline(ggscope.open(ROOT / "resources/samples" / name), by=by)

    legend = text.rstrip().split("\n\n")[-1].replace("\n", "  ").split("  ")
    letters = [part[0] for part in legend if len(part) > 1 and part[1] == " "]
    assert len(letters) > 4
    assert len(set(letters)) == len(letters), legend


def test_phases_have_the_names_of_the_trace() -> None:
    sample = ROOT / "resources/samples/npu-prefill-decode.json"
    text = ascii_timeline(ggscope.open(sample))

    assert {"P prefill", "E decode"} <= set(re.split(r"  |\n", text))
    (phases,) = [line for line in text.splitlines() if line.startswith("  phase ")]
    assert set("".join(phases.split()[1:2])) == {"P", "E"}
