"""Every sentence is listed with its condition, and provoked on each side of it."""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import builders
import side_samples
from expert_traces import routed
from ggscope.analysis.completeness.expected import completeness
from ggscope.analysis.graph.layout import graph_layers
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.reads.what_if import answer, what_if
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.model.graph import NodeFlag
from ggscope.model.routing import expert_key
from ggscope.model.selection import Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.tensors import Place, SizeSource
from ggscope.model.trace import Join, Trace
from ggscope.opening import open_bundle
from ggscope.readers import survey as readers_survey
from ggscope.readers.maps import memory_map
from ggscope.readers.registry import open_trace
from ggscope.views.details.parts import exists, facts_of, thing_news
from ggscope.words.completeness import completeness_words, with_completeness
from ggscope.words.files import join_words, stated_facts
from ggscope.words.nodes import drawn_node_facts, node_facts
from ggscope.words.reads import answer_words, asked_words, hot_cold, hot_facts, rests_on
from ggscope.words.spans import quality_words, span_facts
from graph_traces import graph_trace, network_trace
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from sentences import (
    APP,
    CONDITIONS,
    codes_in,
    is_said,
    listed,
    sayings_in,
    sayings_of_the_program,
    sentences_in,
    text_of,
    texts_in,
    tree_of,
)
from session_files import model_trace, reading_trace
from support import ROOT
from tensor_files import encode, llama_trace

SAMPLES = ROOT / "resources" / "samples"


@cache
def sources() -> dict[Path, str]:
    """Return the tests, but for the lists that this one is about."""
    return {
        path: path.read_text("utf-8")
        for path in (ROOT / "tests").rglob("*.py")
        if path.name not in ("sentences.py", Path(__file__).name)
    }


@cache
def silent_samples() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the codes that each sample of the program gives."""
    paths = [p for p in sorted(SAMPLES.iterdir()) if p.is_file()]
    return tuple((p.name, codes_of(open_trace(p))) for p in paths)


def codes_of(trace: Trace) -> frozenset[str]:
    return frozenset(warning.code for warning in trace.warnings)


def test_every_code_is_listed_with_its_condition():
    found = {code for path in APP.rglob("*.py") for code in codes_in(path)}

    assert found - CONDITIONS.keys() == set(), "add them to tests/sentences.py"
    assert all(len(words.split()) > 2 for words in CONDITIONS.values())


def test_every_listed_code_is_one_of_the_program():
    texts = {text for path in APP.rglob("*.py") for text in texts_in(path)}

    assert CONDITIONS.keys() - texts == set()


def test_a_test_names_each_code_that_it_provokes():
    tests = "\n".join(sources().values())

    def is_named(code: str) -> bool:
        if "*" in code:
            return code.strip("*_") in tests
        return any(q in tests for q in (f'"{code}"', f"'{code}'", f"{code} "))

    assert [c for c in CONDITIONS if not is_named(c) and c not in PROVOKED] == []


def test_a_sample_does_not_provoke_each_code():
    silent = [codes for _, codes in silent_samples()]

    assert [c for c in CONDITIONS if all(c in codes for codes in silent)] == []


def _too_many_tensors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(memory_map, "MAX_ROWS", 3)
    return open_trace(side_samples.sound_file("MemoryMapReader", folder))


def _no_list(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    path = folder / "graph.json"
    path.write_text(
        '{"token_id": 0, "edges": {}, "nodes": [{"id": "a", "operation": "X*Y",'
        ' "label": "t", "address": "0x1", "dtype": "f32", "shape": [1]}]}'
    )
    return open_trace(path)


def _odd_score(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    path = folder / "moe.csv"
    rows = [f"{i % 24},{(7 * i) % 32},{'inf' if i == 5 else 0.5}\n" for i in range(100)]
    path.write_text("layer,expert,score\n" + "".join(rows))
    return open_trace(path)


def _full_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    monkeypatch.setattr(readers_survey, "MAX_FILES", 1)
    for name in ("BufferStatsReader", "MemoryMapReader", "StructureCsvReader"):
        side_samples.sound_file(name, folder)
    return open_bundle(readers_survey.survey([folder]))


def _cut_names(_folder: Path, _: pytest.MonkeyPatch) -> Trace:
    names = [("token_embd.weight", 0, 512), ("blk.0.attn_output.weight", 512, 256)]
    reads = [names[0], (names[1][0][:19], *names[1][1:])]
    return join(reading_trace(reads), [SideFile(model_trace(names), "map")])


def _two_routings(_folder: Path, _: pytest.MonkeyPatch) -> Trace:
    one = routed([[[1, 2], [3, 4]]])
    return join(one, [SideFile(routed([[[1, 2], [3, 4]]]), "experts")])


def _lost_record(folder: Path, _: pytest.MonkeyPatch) -> Trace:
    records = llama_trace(12)
    del records[len(records) // 2]
    path = folder / "trace.bin"
    path.write_bytes(encode(records, "256"))
    trace = open_trace(path)
    return with_completeness(trace, completeness(trace))


PROVOKED: dict[str, Callable[[Path, pytest.MonkeyPatch], Trace]] = {
    "bad_score": _odd_score,
    "files_left": _full_folder,
    "map_too_many": _too_many_tensors,
    "names_completed": _cut_names,
    "not_a_list": _no_list,
    "records_missing": _lost_record,
    "routing_not_added": _two_routings,
}
"""Codes that no other test names."""


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_code_is_given_under_its_condition(code, tmp_path, monkeypatch):
    assert code in codes_of(PROVOKED[code](tmp_path, monkeypatch))


@pytest.mark.parametrize("name", sorted(side_samples.MADE))
def test_sound_files_give_none_of_them(name, tmp_path):
    trace = open_trace(side_samples.sound_file(name, tmp_path))

    assert not codes_of(trace) & PROVOKED.keys()


# -- facts -----------------------------------------------------------------------


@cache
def heard() -> tuple[str, ...]:
    """Return what is said of each of a dozen traces, one text for each."""
    names = ("llama.ggmlviz", "npu-prefill-decode.json", "tinyllama-256.bin")
    traces = [open_trace(SAMPLES / name) for name in names]
    traces.append(open_bundle(readers_survey.survey([SAMPLES / "moe-experiment"])))
    traces += [
        moe_reads(),
        moe_reads(layers=12),
        builders.llama_like_trace(),
        builders.npu_like_trace(),
        builders.nested_trace(),
        builders.empty_trace(),
        network_trace(),
        *odd_traces(),
    ]
    return tuple("\n".join(said_of(trace)) for trace in traces)


def odd_traces() -> list[Trace]:
    """Return traces of which something seldom is to be said."""
    rows = [("blk.0.a.weight", 0, 64), ("blk.1.a.weight", 64, 64)]
    moved = [(name, offset + 4096, size) for name, offset, size in rows]
    others = [("unlike.weight", 0, 64), ("another.weight", 64, 64)]
    mixed = enumerate((2, 0, 3, 1))
    layers = [TensorRow(f"blk.{n}.a", 64 * i, 64, n) for i, n in mixed]
    reads = [Op(i, (Read(i, 64),)) for i in range(4)]
    # Every flag that the facts have words for.
    odd = (
        SpanFlag.OVERLAPS_PARENT,
        SpanFlag.OUT_OF_ORDER,
        SpanFlag.TRUNCATED_NAME | SpanFlag.REPEATED,
    )
    flags = np.array(odd, np.uint16)
    plain = builders.spans_trace([0], [1])
    alone = graph_trace(3, [(0, 1, 0), (1, 2, 0)])
    nodes = np.array([NodeFlag.UNDECLARED, NodeFlag.SHARED, 0], np.uint8)
    return [
        join(reading_trace(moved), [SideFile(model_trace(rows), "map")]),
        join(reading_trace(others), [SideFile(model_trace(rows), "map")]),
        replace(plain, joins=(Join("map", "map.json", 0, 5),)),
        join(plain, [SideFile(model_trace(rows), "map")]),
        model_trace(rows, source=SizeSource.REPAIRED),
        model_trace(rows, place=Place.UNKNOWN),
        reads_trace((TensorRow("a"),), [Op(0, (Read(0, 10),))]),
        reads_trace(layers, reads),
        builders.spans_trace([0, 10, 30], [20, 15, 40], flags=flags),
        routed([[[1, 2], [3, 4]]]),
        replace(alone, graphs=(replace(alone.graphs[0], flags=nodes),)),
        reads_trace((TensorRow("blk.0.x_exps.weight", 0, 64, n_experts=4),), reads[:1]),
    ]


def said_of(trace: Trace) -> Iterator[str]:
    """Yield all that the modules of facts say of a trace and of what it holds."""
    for fact in hot_facts(trace, hot_cold(trace)):
        yield f"{fact.title} | {fact.words} | {fact.remark}"
    yield from (f"{f.label} | {f.value} | {f.exact}" for f in stated_facts(trace))
    yield completeness_words(completeness(trace))
    yield from map(join_words, trace.joins)
    for span in np.linspace(0, len(trace.spans) - 1, 40).astype(int).tolist():
        if 0 <= span < len(trace.spans):
            for absolute in (False, True):
                facts = span_facts(trace, span, absolute=absolute)
                yield from (f"{f.label} | {f.value} | {f.exact}" for f in facts)
            yield quality_words(trace, span)
    yield from said_of_caches(trace)
    yield from said_of_nodes(trace)
    stacked = trace.tensors.n_experts
    has_experts = len(trace.routing) or (stacked is not None and stacked.any())
    numbers = (0, 1, 2, 3, 30) if has_experts else ()
    experts = [expert_key(0, number) for number in numbers]
    for table, ids in (
        ("tensors", range(min(len(trace.tensors), 40))),
        ("buffers", range(min(len(trace.buffers), 6))),
        ("experts", experts),
    ):
        for i in ids:
            selection = Selection(table, (i,))
            if exists(trace, selection):
                news = thing_news(trace, selection, None)
                shown = facts_of(trace, selection, news, None, absolute=False)
                yield from (f"{f.label} | {f.value} | {f.exact}" for f in shown.facts)


def said_of_caches(trace: Trace) -> Iterator[str]:
    for with_row_reads in (False, True):
        found = what_if(trace, with_row_reads=with_row_reads)
        yield asked_words(found)
        yield from rests_on(found)
        whole = found.working_set
        for size in {whole // 3, whole, 1}:
            for k in (0, 2):
                yield from answer_words(found, answer(found, size, k=k))


def said_of_nodes(trace: Trace) -> Iterator[str]:
    n = sum(len(graph) for graph in trace.graphs)
    found = correlate(trace) if n else None
    for node in range(min(n, 60)):
        for correlation in (None, found):
            shown = node_facts(trace, node, None, correlation)
            yield from (f"{f.label} | {f.value} | {f.exact}" for f in shown.facts)
            yield shown.kind
    for number, graph in enumerate(trace.graphs[:2]):
        layers = graph_layers(graph)
        counted = node_measures(trace, number, found)
        for node in range(min(len(graph), 60)):
            for measures in (None, counted):
                drawn = drawn_node_facts(trace, graph, node, layers, measures)
                yield from (f"{f.label} | {f.value} | {f.exact}" for f in drawn)


FACTS = ("files", "nodes", "reads", "selected", "spans")


@pytest.mark.parametrize("module", FACTS)
def test_sentences_of_facts_are_provoked_on_each_side(module):
    """Each is said of a trace here or held by a test, and not said of another."""
    always, never = [], []
    tests = "\n".join(sources().values())
    for sentence in sorted(sentences_in(APP / "words" / f"{module}.py")):
        says = [is_said(sentence, words) for words in heard()]
        if all(says):
            always.append(sentence)
        pieces = [p.strip(" ,;:.") for p in re.split(r"[*{}]+", sentence)]
        longest = max(pieces, key=len)
        if not any(says) and longest not in tests and not told_apart({sentence}):
            never.append(sentence)

    assert always == []
    assert never == []


# -- everything else that is said -----------------------------------------------------

KINDS = ("claims", "controls", "refusals")


def test_every_sentence_is_listed():
    lists = {kind: listed(kind) for kind in KINDS}
    said = sayings_of_the_program()

    known = {text for kind in lists.values() for text in kind}
    new = {text: path.name for text, path in said.items() if text not in known}
    assert new == {}, "add them to tests/sayings; what speaks of a trace to claims.txt"
    assert known - said.keys() == set(), "nothing says these any more"
    assert sum(map(len, lists.values())) == len(known), "a sentence is in two lists"
    assert all(len(words.split()) > 2 for words in lists["claims"].values())


def told_apart(claims: Collection[str]) -> set[str]:
    """Return the claims of which a test holds both sides, word for word.

    In a table of claims (``test_sayings*``), or in a test that calls `assert_sides`.
    """
    found: set[str] = set()
    for path, text in sources().items():
        if path.name.startswith("test_sayings"):
            found |= texts_in(path)
        elif "assert_sides(" in text:
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.FunctionDef) and _asserts_sides(node):
                    texts = (n for n in ast.walk(node) if isinstance(n, ast.expr))
                    found |= {text_of(n) or "" for n in texts}
    return found & set(claims)


def _asserts_sides(test: ast.FunctionDef) -> bool:
    calls = (n.func for n in ast.walk(test) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Name) and f.id == "assert_sides" for f in calls)


def test_a_test_holds_both_sides_of_each_claim():
    """Where it is true it is said, and by the like for which it is false it is not."""
    claims, views = listed("claims"), listed("views")
    facts = {
        text
        for module in FACTS
        for text in sayings_in(APP / "words" / f"{module}.py")
        if any(is_said(text, words) for words in heard())
    }

    assert views.keys() <= claims.keys()
    untold = claims.keys() - told_apart(claims) - facts - views.keys()
    assert untold == set(), "say them to assert_sides"
