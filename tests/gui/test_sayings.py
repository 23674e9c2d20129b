"""What each view says of very different traces: of some this, of others not."""

from collections.abc import Iterator

import pytest
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

import builders
from buffer_traces import busy_buffers, reference_buffers
from expert_traces import accessing, routed
from ggscope.errors import ExportError
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.opening import open_bundle
from ggscope.readers.registry import open_trace
from ggscope.readers.survey import survey
from ggscope.render.look import Look, css_px
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.registry import BUILTIN
from graph_traces import network_trace
from panes import texts_of_widgets
from reads_builder import moe_reads
from scenes import texts_of
from sentences import is_said, listed
from session_files import model_trace
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def traces() -> Iterator[Trace]:
    """Yield traces that each view has something else to say of."""
    for name in ("llama.ggmlviz", "npu-prefill-decode.json", "tinyllama-256.bin"):
        yield open_trace(SAMPLES / name)
    yield open_bundle(survey([SAMPLES / "moe-experiment"]))
    yield builders.empty_trace()
    yield builders.nested_trace()
    yield network_trace()
    yield moe_reads()
    yield reference_buffers()
    yield busy_buffers()
    yield routed([[[1, 2], [3, 4]], [[1, 5], [3, 4]]])
    yield slices()
    yield model_trace([("blk.0.a.weight", 0, 64), ("blk.1.a.weight", 64, 64)])


def slices() -> Trace:
    """Return accesses to slices of experts, and to a stack whose choice is unknown."""
    rows = [
        ("blk.0.ffn_up_exps.weight[0]", 0, 64, 0, 0, 0),
        ("blk.0.ffn_up_exps.weight[1]", 64, 64, 0, 1, 0),
    ]
    patterns = [[(0, 0, 0, 64)], [(1, 0, 1, 64)]]
    return accessing(patterns, [0, 1, 0], [0, 0, 1], rows)


def settle(qtbot: QtBot, session: Session) -> None:
    for _ in range(3):
        QTest.qWait(1)
        qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)


@pytest.mark.parametrize("entry", BUILTIN, ids=lambda entry: entry.id)
def test_view_says_other_things_of_other_traces(qtbot: QtBot, entry) -> None:
    """What a view claims is said of some traces, and not of the others."""
    heard_of: list[str] = []
    for trace in traces():
        session = Session()
        view = entry.load()(session, theme("dark"))
        qtbot.addWidget(view)
        view.resize(1300, 700)
        view.show()
        session.set_trace(trace)
        settle(qtbot, session)
        words = [*texts_of_widgets(view)]
        head = view.head_widget()
        words += texts_of_widgets(head) if head is not None else ()
        if len(trace.spans):
            session.select(Selection("spans", (0,)))
            settle(qtbot, session)
            words += texts_of_widgets(view)
        figure = view.figure()
        if figure is not None:
            try:
                drawn = figure.draw(Look(width=css_px(1300), height=css_px(700)))
                words += [*texts_of(drawn.picture), drawn.description, drawn.title]
            except ExportError as error:
                words.append(str(error))
        view.close()
        session.close()
        heard_of.append("\n".join(words))

    claims = listed("claims")
    said = {c: [is_said(c, words) for words in heard_of] for c in claims}
    on_each_side = {c for c, where in said.items() if any(where) and not all(where)}
    mine = {text for text, view in listed("views").items() if view == f"by {entry.id}"}
    assert mine - on_each_side == set()
