"""Reading the files of a session: order, stages, faults, adding and taking out."""

import json
import threading
from pathlib import Path

import pytest

from ggscope.errors import Cancelled, QueryError, ReadError, TooLargeError
from ggscope.model.tensors import Place
from ggscope.model.trace import Trace
from ggscope.readers import registry
from ggscope.readers.api import Estimate, ReadContext
from ggscope.readers.discovery import survey
from ggscope.readers.memory import Fit, too_large
from ggscope.session_loading import (
    alone,
    can_be_without,
    named_shifts,
    open_bundle,
    open_parts,
    with_more,
    without,
)
from session_files import rows_by_name, write_experiment, write_map
from statements import new_statement, new_statements
from support import ROOT, need_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_experiment(tmp_path / "run", tokens=2)


def codes(trace: Trace) -> list[str]:
    return [w.code for w in trace.warnings]


def test_folder_opens_as_one_session(folder):
    trace = open_bundle(survey([folder]))

    assert trace.check() == []
    assert [p.role for p in trace.parts] == ["trace", "trace", "map"]
    assert trace.joins[0].delta == 4096
    assert trace.joins[0].n_found == trace.joins[0].n_all == 8
    place = trace.tensors.place[rows_by_name(trace)["blk.5.ffn_up.weight"]]
    assert place == Place.CALIBRATED
    note = next(w for w in trace.warnings if w.code == "files_passed_over")
    assert "README.md" in note.message


def test_each_file_that_takes_no_part_is_named_with_its_reason(folder):
    (folder / "names.txt").write_text("one\ntwo\nthree\n")
    (folder / "notes.json").write_text('{"colour": 1}')

    trace = open_bundle(survey([folder]))

    note = next(w for w in trace.warnings if w.code == "files_passed_over")
    assert note.count == 3
    for text in ("notes.json: ", "README.md: ", "names.txt: "):
        assert text in note.message


def test_same_folder_gives_the_same_session_every_time(folder):
    first, second = (open_bundle(survey([folder])) for _ in range(2))

    assert first.strings.texts() == second.strings.texts()
    assert first.tensors.name.tolist() == second.tensors.name.tolist()
    assert first.warnings == second.warnings


def test_trace_is_published_before_its_sides_and_its_spans_stay(tmp_path):
    folder = write_experiment(tmp_path)
    early: list[Trace] = []

    whole = open_bundle(survey([folder]), context=ReadContext(publish=early.append))

    assert early[-1].parts == ()
    assert not early[-1].is_partial
    assert early[-1].awaits_files
    assert not whole.awaits_files
    assert early[-1].spans is whole.spans


def test_first_of_several_traces_says_that_spans_are_to_come(folder):
    early: list[Trace] = []
    context = ReadContext(publish=early.append)

    whole = open_bundle(survey([folder]), context=context)

    assert all(trace.is_partial for trace in early[:-1])
    assert early[-1].spans is whole.spans


def test_progress_counts_all_files_and_never_goes_back(folder):
    seen: list[tuple[int, int]] = []
    bundle = survey([folder])

    open_bundle(bundle, context=ReadContext(progress=lambda *at: seen.append(at)))

    total = sum(member.size for member in bundle.members)
    assert {t for _, t in seen} <= {total}
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_cancelling_stops_between_and_inside_files(folder):
    cancel = threading.Event()
    cancel.set()

    with pytest.raises(Cancelled):
        open_bundle(survey([folder]), context=ReadContext(cancel=cancel))


def test_side_that_cannot_be_read_is_a_warning_and_the_rest_opens(folder):
    bundle = survey([folder])
    (folder / "memory-map.json").write_text('{"model_name": 1, "tensors": [', "utf-8")

    trace = open_bundle(bundle)

    unreadable = [w for w in trace.warnings if w.code == "part_unreadable"]
    broken = [w for w in trace.warnings if w.place.startswith("memory-map.json")]
    assert unreadable or broken
    assert len(trace.spans)


def test_trace_that_is_gone_is_a_warning_while_another_is_there(folder):
    bundle = survey([folder])
    (folder / "traces" / "token-00001.json").unlink()

    trace = open_bundle(bundle)

    assert codes(trace).count("part_unreadable") == 1
    assert [p.role for p in trace.parts] == ["trace", "map"]


def test_folder_of_which_nothing_can_be_read_is_an_error(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    with pytest.raises(ReadError, match="no supported files") as caught:
        open_bundle(survey([tmp_path]))

    assert "notes.txt" in caught.value.hint
    write_map(tmp_path / "memory-map.json", [("a.weight", 0, 8)])
    one = open_bundle(survey([tmp_path]))
    notes = "\n".join(w.message for w in one.warnings)
    assert new_statements(str(caught.value), notes)


def test_file_that_cannot_be_read_is_to_be_made_again_unless_more_is_known(
    folder, monkeypatch
):
    read = registry.open_trace

    def message_of(hint: str | None) -> str:
        def fail(path: Path, **how: object) -> Trace:
            if hint is not None and path.name == "memory-map.json":
                raise ReadError("it is broken.", hint=hint)
            return read(path, **how)

        monkeypatch.setattr(registry, "open_trace", fail)
        return "\n".join(w.remedy for w in open_bundle(survey([folder])).warnings)

    assert new_statement(
        message_of(""), message_of("Ask its author.") + message_of(None)
    )


def test_last_file_that_cannot_be_read_is_an_error(tmp_path):
    path = write_map(tmp_path / "memory-map.json", [("a.weight", 0, 8)])
    bundle = survey([path])
    path.unlink()

    with pytest.raises(ReadError):
        open_bundle(bundle)


def test_traces_are_admitted_and_what_is_too_large_is_reported(folder):
    estimates: list[Estimate] = []

    def refuse(estimate: Estimate) -> None:
        estimates.append(estimate)
        raise too_large(Fit(estimate, 1, 1.0, 0), folder)

    trace = need_corpus() / "tracer" / "trace_256_3584a339.bin"
    bundle = survey([trace, folder / "memory-map.json"])

    with pytest.raises(TooLargeError):
        open_bundle(bundle, admit=refuse)
    assert len(estimates) == 1


def test_sides_alone_make_a_session(tmp_path):
    for name in ("a.json", "b.json"):
        write_map(tmp_path / name, [(f"{name}.weight", 0, 8)])

    trace = open_bundle(survey([tmp_path]))

    assert trace.check() == []
    assert [p.role for p in trace.parts] == ["map", "map"]
    assert len(trace.tensors) == 2


def test_adding_reads_only_what_is_new_and_taking_out_gives_back(tmp_path):
    folder = write_experiment(tmp_path)
    path = folder / "traces" / "token-00000.json"
    single = alone(open_bundle(survey([path])), path)

    path.unlink()  # it must not be read again
    more = with_more(single, survey([folder / "memory-map.json"]), ReadContext())
    less = without(more, {folder / "memory-map.json"})

    assert more.trace.spans is single.trace.spans
    assert more.trace.joins[0].delta == 4096
    assert less.trace.tensors is single.trace.tensors
    assert less.trace.parts == ()


def test_adding_what_is_there_or_is_nothing_says_so(tmp_path):
    folder = write_experiment(tmp_path)
    opened = open_parts(survey([folder]))

    for path in (folder / "memory-map.json", folder / "README.md"):
        with pytest.raises(ReadError, match="already"):
            with_more(opened, survey([path]), ReadContext())


def test_last_trace_cannot_be_taken_out(tmp_path):
    folder = write_experiment(tmp_path)
    opened = open_parts(survey([folder]))

    with pytest.raises(ValueError, match="needs a trace"):
        without(opened, {folder / "traces" / "token-00000.json"})


def test_trace_can_be_taken_out_from_over_its_model(tmp_path):
    samples = ROOT / "resources" / "samples" / "moe-experiment"
    model, run = samples / "model.gguf", samples / "trace-1024.bin"
    if not run.exists():
        pytest.skip("the samples have not been made")
    session = open_parts(survey((run, model)))

    assert can_be_without(session, {run})
    left, fresh = without(session, {run}).trace, open_parts(survey((model,))).trace

    assert left.check() == []
    assert len(left.spans) == len(left.accesses.patterns) == 0
    assert list(rows_by_name(left)) == list(rows_by_name(fresh))
    assert left.tensors.offset.tolist() == fresh.tensors.offset.tolist()
    assert left.extent == fresh.extent


PAIRS = [
    ("trace_256_3584a339.bin", "0fd8c082", 1_709_440, 134),
    ("trace_256_3584a339.bin", "3584a339", 1_709_440, 134),
    ("trace_256_c26d86e7.bin", "3584a339", 1_709_440, 134),
    ("trace_1024v3_a6ba6071.bin", "a6ba6071", 0, 402),
    ("trace_1024v3_962e44d2.bin", "962e44d2", 0, 870),
    ("trace_1024v3_962e44d2.bin", "0b4cf8b5", 0, 870),
    ("trace_1024v3_962e44d2.bin", "94668299", 13_008_832, 870),
]


@pytest.mark.parametrize(("trace", "commit", "delta", "n"), PAIRS)
def test_every_real_pair_has_one_delta_that_all_accesses_agree_with(
    trace, commit, delta, n
):
    corpus = need_corpus()
    (listed,) = (corpus / "bsc" / commit).rglob("memory-map.json")

    joined = open_bundle(survey([corpus / "tracer" / trace, listed]))

    assert joined.check() == []
    value = joined.joins[0]
    assert (value.delta, value.n_found, value.n_all, value.n_agree) == (delta, n, n, n)
    columns = joined.accesses.patterns
    rows = columns.tensor[columns.space == 0]
    assert (joined.tensors.offset[rows] == columns.offset[columns.space == 0]).all()
    assert (joined.tensors.file[rows] == 0).all()


def test_stacks_of_experts_are_gathered_from_their_slices():
    corpus = need_corpus()
    trace = corpus / "tracer" / "trace_1024v3_962e44d2.bin"
    stacks = []
    for commit in ("94668299", "962e44d2", "0b4cf8b5"):
        (listed,) = (corpus / "bsc" / commit).rglob("memory-map.json")
        joined = open_bundle(survey([trace, listed]))
        t = joined.tensors
        rows = rows_by_name(joined)
        stacks.append(
            [
                (int(t.offset[row]), int(t.size[row]), int(t.n_experts[row]))
                for layer in range(24)
                for part in ("up", "down", "gate")
                for row in [rows[f"blk.{layer}.ffn_{part}_exps.weight"]]
            ]
        )

    assert stacks[0] == stacks[1] == stacks[2]
    assert {n for _, _, n in stacks[0]} == {32}


def test_map_of_another_quantisation_is_refused_with_evidence():
    corpus = need_corpus()
    (listed,) = (corpus / "bsc" / "a6ba6071").rglob("memory-map.json")

    joined = open_bundle(survey([corpus / "tracer/trace_256_3584a339.bin", listed]))

    misfit = next(w for w in joined.warnings if w.code == "part_does_not_fit")
    assert "67 of 67 tensors matched by name, 2 of 67 offsets match" in misfit.message


@pytest.mark.parametrize("commit", ["3584a339", "962e44d2", "a6ba6071", "c26d86e7"])
def test_buffers_of_a_real_run_lie_before_its_first_op(commit):
    folder = need_corpus() / "bsc" / commit
    (listed,) = folder.rglob("buffer-timeline.json")
    (tokens,) = folder.rglob("traces/token-00000.json")
    first_op = json.loads(tokens.read_text())["entries"][0]["timestamp_ns"]
    data = json.loads(listed.read_text())["buffers"]

    trace = open_bundle(survey([folder]))

    known = trace.buffers.allocated[trace.buffers.size > 0]
    expected = [round(b["alloc_time_ms"] * 1000) * 1000 - first_op for b in data]
    assert sorted(known.tolist()) == sorted(expected)
    assert trace.extent.start == min(expected)
    assert -28_500_000 <= min(expected) <= -14_000_000
    assert all(part.shift == 0 for part in trace.parts)
    assert trace.check() == []


def test_binary_and_json_of_one_run_are_shown_once():
    corpus = need_corpus()
    (tokens,) = (corpus / "bsc" / "3584a339").rglob("traces/token-00000.json")

    trace = open_bundle(survey([corpus / "tracer" / "trace_256_3584a339.bin", tokens]))

    assert "same_run_twice" in codes(trace)
    assert trace.info.n_records == 582


def test_shift_of_a_name_that_several_files_have_is_refused(tmp_path):
    for run in ("a", "b"):
        write_map(tmp_path / run / "map.json", [("x", 0, 64)])
    bundle = survey([tmp_path / "a" / "map.json", tmp_path / "b" / "map.json"])

    def message_of(name: str) -> str:
        try:
            named_shifts(bundle, [(name, "1ms")])
        except QueryError as error:
            return str(error)
        return ""

    like = message_of("a/map.json") + message_of("c.json")
    assert new_statement(message_of("map.json"), like)
