"""The code of every problem that a trace can have, with its condition.

``tests/contract/test_problem_codes.py`` compares the list with the program
(`ReadWarning.code`). An asterisk stands for a key or a number.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from support import ROOT

APP = ROOT / "app" / "ggscope"

CONDITIONS = {
    # -- any file -------------------------------------------------------------
    "bad_utf8": "a text holds bytes that are no UTF-8",
    "broken_json": "the JSON has a fault that is not its end, behind whole elements",
    "clock_unknown": "files of a session have clocks that cannot be compared",
    "duplicate_key": "an object names a key twice",
    "file_changed": "the file changed between opening and the end of reading",
    "file_shrank": "records that were seen are no longer there",
    "files_left": "a folder holds more files than a session takes",
    "files_passed_over": "a folder holds files that are not read with its session",
    "large_value": "one value is larger than what is decoded",
    "low_confidence": "the format was guessed by structure alone, below SURE",
    "not_a_list": "a key that should hold a list holds something else",
    "odd_value": "a value is one that JSON does not have, and was left out",
    "other_clock": "a file's times lie hours away from those of the session",
    "part_unreadable": "a file of a session cannot be read at all",
    "plugin_off": "a plug-in was switched off for what it did",
    "range_read": "the option range left out records",
    "*_ignored": "an option was given to a reader that does not know it",
    "names_*": "the option names left out names",
    "names_left_out": "the option names left out names",
    "read_failed": "the disk or network failed behind whole records",
    "reading_failed": "reading failed after a part was shown",
    "reading_stopped": "somebody stopped reading after a part was shown",
    "program": "the program itself failed while the trace was looked at",
    "live_before": "records that had left the ring of a running program when following "
    "began; the count is theirs",
    "live_lost": "a running program wrote records that nobody read in time; the count "
    "is what it and the reader counted, and a gap lies where its thread was silent",
    "live_no_lane": "threads of a running program found no lane in its ring",
    "live_foreign": "a ring that a person named in full belongs to another user",
    "live_damaged": "a definition or event of a running program does not fit its form",
    "live_hole": "records of a running program stay zero while others came behind them",
    "log_rotated": "a log that is followed got shorter, or another file has its name",
    "live_full": "a running program was followed until its trace took the memory that "
    "it may take, or the system had no more",
    "live_stopped": "a person stopped following a program that may have gone on",
    "live_residency": "the system does not report what of the model of a followed "
    "program is in memory, and the notice says why",
    "live_note": "what the capture library says of itself, in its own words",
    "stated_figures": "a figure that a file states differs from its content by more "
    "than rounding, and nothing of the content was lost",
    "trailing_text": "something stands behind the end of the one value of a file",
    "truncated_json": "the JSON ends too early, behind whole elements",
    # -- sessions -------------------------------------------------------------
    "cycles_as_time": "a file of cycles without a frequency joins one of nanoseconds",
    "delta_disagrees": "the offsets of a map fit the trace at another place than the "
    "head of the model says",
    "names_completed": "a map completes names that the trace cut",
    "metadata_left": "metadata of a trace has more values than are shown",
    "names_open_end": "the last line of a list of names has no end",
    "names_stray_line": "a line of a list of tensor names is no name",
    "tensors_named": "a map names tensors by place that have no name in a trace",
    "nothing_to_map": "a trace has no names of tensors and no offsets; a map joins",
    "offsets_disagree": "accesses lie outside the tensor that a map names for them",
    "offsets_moved": "the offsets of a map fit only after one shift",
    "part_does_not_fit": "a map or model names none or few of the tensors read",
    "routing_not_added": "two files of a session state the choices of experts",
    "same_run_twice": "two traces of a session hold the same records",
    "sidecar_refused": "a sidecar is of other records than those it lies beside: of "
    "fewer, of other times or of other graphs",
    "recording_cut": "a sidecar that fits lists more records than the file holds",
    "tensors_missing_in_map": "accesses to the model file have no tensor in a map",
    "trace_offsets_moved": "the offsets of a trace fit a model's only after one shift",
    # -- sidecars of recordings -----------------------------------------------
    "capture_lost": "the sidecar counts records that were lost",
    "capture_no_lane": "the sidecar counts records of threads without a lane",
    "capture_events_lost": "the sidecar counts events that were lost",
    "capture_definitions_lost": "the sidecar counts definitions that were lost",
    "capture_ops_missing": "the account of a sidecar has more missing records than any "
    "loss tells",
    "left_out": "the sidecar states filters, sampling, limits, a program that was "
    "killed, or graphs that are recorded as a whole",
    "capture_unnamed_ops": "the sidecar counts ops that ran outside of any graph",
    "capture_counters": "the sidecar names counters of the ring that were damaged",
    "live_counters": "a counter of a ring is beyond what it can hold or count",
    "capture_damaged": "the sidecar counts frames that were damaged when recorded",
    "sidecar_values": "values of a sidecar are of a wrong kind or beyond all bounds",
    # -- .ggmlviz -------------------------------------------------------------
    "bad_label_flag": "a label flag is neither 0 nor 1",
    "bad_label_length": "a label is longer than any real one",
    "bad_label_text": "a label is no UTF-8",
    "bad_op_number": "an op number does not fit any table",
    "bad_size": "a size is larger than any address space",
    "bad_timestamp": "a time stamp is impossible",
    "data_after_zeros": "bytes that are not zero follow a run of zeros",
    "double_free": "a pointer is freed that is free already",
    "estimated_ops": "all ops of a graph begin before the first one ends",
    "old_numbering": "6 and 7 carry neither pointer nor size, and there is no 9 or 10",
    "pointers_reused": "a pointer is allocated again",
    "free_without_alloc": "a pointer is freed that was never allocated in the file",
    "never_freed": "an allocation is alive at the end",
    "no_events": "a header is followed by no event",
    "op_table_uncertain": "the best op table leads by less than UNCERTAIN_MARGIN",
    "out_of_order": "records lie behind later ones",
    "skipped_bytes": "bytes between readable events are damaged",
    "too_many_lanes": "there are more pairs of backend and thread than lanes",
    "truncated_event": "the file ends inside an event",
    "unfinished": "a graph or op has no end",
    "unknown_op": "an op number is beyond its table",
    "unknown_type_*": "events have a type that no writer is known to write",
    "unknown_version": "the header states another version than 1",
    "unmatched_end": "a graph or op ends that did not begin",
    "zero_tail": "the file ends with zeros",
    # -- tensor access --------------------------------------------------------
    "bad_event": "a buffer event has no time, id or kind",
    "bad_expert": "a record lists an expert that cannot be",
    "bad_extension": "an extension record holds what it cannot",
    "buffer_full": "there are as many records as the tracer has room for",
    "duplicate_records": "records are equal in every field",
    "expert_lists_differ": "records of one choice list different experts",
    "extension_records": "records hold experts or scores instead of an op",
    "hole": "a run of zero records lies between others",
    "nothing_flushed": "the file holds only zeros",
    "per_thread_blocks": "records lie in blocks, one thread after the other",
    "places_not_set": "tensors of the model file all have place 0",
    "range": "the option range left out records",
    "routing_of_first_token": "a prompt's records list the experts of one token",
    "routing_used_unknown": "how many of the listed experts are used is not recorded",
    "shared_ops": "several threads record the same op",
    "threads_not_compared": "so many threads do other ops that not all are compared",
    "time_gap": "a pause between records of a pass is far longer than its ops",
    "truncated_names": "names fill their field",
    "truncated_record": "the file ends inside a record",
    "unclean_end": "the records end with a whole batch of the tracer's buffer",
    # -- token traces ---------------------------------------------------------
    "bad_entry": "an entry has no time stamp or op",
    "bad_source": "a source of an entry cannot be read",
    "entry_count": "the file states another number of entries than it has",
    "op_names_doubtful": "op names contradict tensor names, and no table explains it",
    "ops_repaired": "op names were printed with another table than the traced one",
    # -- buffers --------------------------------------------------------------
    "allocated_again": "a buffer is allocated that is alive",
    "bad_buffer": "a listed buffer has no id",
    "broken_line": "a line begins like an event and cannot be read, before the last",
    "buffers_not_recorded": "a trace of buffers has none of weights or compute",
    "cumulative_mismatch": "an event states another sum than follows",
    "not_in_timeline": "a listed buffer has no event",
    "overwritten_entry": "a listed buffer has the id of an earlier one",
    "peak_mb_mismatch": "the stated peak in MB is another than that of the events",
    "peak_mismatch": "the stated peak is another than that of the events",
    "repaired_line": "a name breaks the JSON of its line, and the fields are known",
    "stray_line": "a line is no event or row, and does not begin like one",
    "truncated_line": "the last line begins like an event and is cut",
    "untimed_buffer": "a listed buffer has no time",
    # -- calls of CUDA --------------------------------------------------------
    "bad_event_time": "an event has no time, or one that ticks cannot hold",
    "calls_without_end": "a call begins and no end of it is there",
    "dropped_events": "a tracer of CUDA calls says that it dropped events",
    "functions_left_out": "the hook of CUDA calls had no room for some functions",
    "calls_cut_short": "a recording of CUDA calls has no last line",
    "clock_back": "an event is earlier than the one before it",
    "ends_without_call": "an end has no begin",
    "unit_guessed": "it is unknown whether times are in s or ms",
    # -- Chrome traces ---------------------------------------------------------
    "bad_nesting": "a span begins within another of its thread and ends behind it",
    "begin_without_end": "a begin of a thread or activity has no end",
    "broken_event": "an event of a list is no JSON, or has no time",
    "end_without_begin": "an end of a thread or activity has no begin",
    "list_not_closed": "a list of events has no end",
    "bad_frame": "a sample names a frame or location that its file does not list",
    "bad_sample": "a sample or event of a profile has no frame or no time",
    "bad_weight": "a weight of a sample is below zero, or no number",
    "deep_stacks": "a stack has more frames than are shown",
    "other_weights": "a profile has values of several units, which no axis can show",
    "period_estimated": "samples state no period: the median of their distances counts",
    "period_unknown": "samples state no period, and no thread has two of them",
    "profile_cut": "a profile of pprof is damaged or cut",
    "samples_out_of_order": "a sample or event is earlier than the one before it",
    "samples_without_stack": "a sample of perf has no call stack",
    "weights_apart": "a profile without times joins a session, or others join one",
    "weights_without_unit": "folded stacks do not say what their weights are",
    "loose_flow": "an arrow has an end that lies in no span, or no begin",
    "mismatched_end": "an end has another name than every open begin",
    "no_event": "an element of a list of events has no phase",
    "packed_cut": "a packed file is damaged, cut, or unpacks to too much",
    "stacks_left_out": "a trace has sampled stacks",
    "too_many_counters": "a trace has more counters than are shown",
    "too_many_calls": "a log has more HTTP calls than are shown",
    # -- Perfetto traces -------------------------------------------------------
    "broken_bundle": "packets that are packed together cannot be unpacked",
    "broken_packet": "a packet is damaged",
    "cut_packet": "the file ends within a packet",
    "events_left_out": "an event has a phase that is not shown",
    "lost_packets": "a sequence says that packets before were lost",
    "no_track_events": "a trace has neither track events nor counters",
    "packets_left_out": "packets of kinds that are not shown",
    "packets_packed_by_zstd": "packets are packed by zstd, and nothing unpacks that",
    "packets_without_state": "an event needs what a lost packet had said",
    "tracks_joined": "a trace has more tracks than lanes are made",
    "unknown_clock": "an event's clock has no path to that of the trace",
    "unknown_name": "an event has a number for its name that was never defined",
    "value_without_counter": "a sample has no track",
    # -- SQLite traces ---------------------------------------------------------
    "database_cut": "an SQLite database is shorter than its header says",
    "damaged_table": "rows of a table cannot be read; those around them were",
    "write_ahead_log": "beside a database lies a log with rows that were not read",
    "profiler_*": "what the profiler that wrote a file noted itself",
    "profiler_overhead": "spans of a profiler's own work are among the others",
    # -- rocprofv3 -------------------------------------------------------------
    "records_without_times": "records of a list have no begin and end",
    # -- requests to storage --------------------------------------------------
    "ends_without_request": "a request ends and no begin of it is there",
    "extents_without_place": "an extent is compressed, inline or not written yet",
    "failed_requests": "a request or call failed",
    "io_uring_hidden": "a strace has calls of io_uring",
    "map_without_end": "an extent map does not end as filefrag ends it",
    "no_issues": "a trace has queued requests and none that was issued",
    "no_request_sizes": "a trace of requests does not state their sizes",
    "partial_requests": "a request completes with another size than it was issued",
    "partition_ambiguous": "two partitions of a device fit an extent map alike",
    "partition_start": "remapped requests show where a partition begins",
    "partition_unknown": "an extent map is joined and no request was remapped",
    "reads_of_no_file": "a read is of a pipe, socket or terminal",
    "reads_without_offset": "it is unknown where in its file a read or fault is",
    "requests_across_extents": "a request ends behind the extent it begins in",
    "requests_outside_files": "a request lies in no file that has an extent map",
    "requests_without_end": "a request is issued and no end of it is there",
    # -- logs -----------------------------------------------------------------
    "no_clock": "the lines of a log have no times",
    "no_requests": "no line of a log is about a request",
    "restarts": "the program of a log started again",
    "requests_without_timings": "a request of a log has no timings",
    "other_lines": "lines of a log or profile are of no known form",
    "bad_function": "a call of a function in a profile has no name, begin or end",
    "bad_record": "a record of a profile has no backend, begin or duration",
    "profile_version": "a profile has a later version than is known",
    "no_times": "a table has durations and no times",
    "broken_op_lines": "lines begin like ggml's lists of ops and cannot be read",
    "cut_op_names": "ggml's scheduler listed nodes, whose names it cuts",
    "mean_times": "a list of Vulkan's logger has means and no totals",
    "no_op_start": "some ops of an NPU's profile have no first cycle, others have",
    "counter_wraps": "a cycle counter wrapped more than once between two lines",
    "unpaired_events": "events of an NPU's thread have a begin or an end alone",
    "npu_events_lost": "batches state more events than lines list",
    "imatrix_cut": "entries of an importance matrix are cut or damaged",
    "imatrix_misfit": "an importance matrix is of another model",
    "broken_bench_row": "a row of llama-bench is cut or has no speed",
    "experts_without_layer": "counts of experts are of no known layer, or no counts",
    "bench_samples": "repetitions of llama-bench are no numbers, or not as many",
    # -- experts --------------------------------------------------------------
    "bad_score": "a score is infinite or beyond what a router computes",
    "lines_before_table": "lines stand before a table",
    "tokens_not_recorded": "a table of experts has no column of tokens",
    "unfinished_line": "the last row has no line end, or the last sample no blank line",
    "unknown_column": "a table has columns that are not known",
    # -- maps and tables of tensors -------------------------------------------
    "csv_lines_before": "lines stand before the header of a table",
    "csv_open_end": "the last line of a table has no line end",
    "csv_stray_line": "a line of a table is no row",
    "csv_too_many": "a table has more rows than are read",
    "map_bad_row": "an element of a map is no object",
    "map_bad_value": "a value of a map is no JSON",
    "map_beyond_total": "a tensor ends beyond the stated total",
    "map_count": "a map states another number of tensors than it lists",
    "map_end_differs": "offset and size of a tensor give another end than stated",
    "map_no_name": "a tensor of a map has no name",
    "map_no_offset": "a tensor of a map has no offset",
    "map_overlaps": "tensors of a map run into the next one",
    "map_relative_offsets": "the offsets of a map begin at 0",
    "map_repeated_tensor": "a map lists a name twice",
    "map_slices": "a map lists slices of experts one by one",
    "map_too_many": "a map lists more tensors than are read",
    "map_total_inflated": "the stated total counts sizes that were repaired",
    "registry_empty": "a registry has a header and no row",
    "registry_numbers": "the numbers of a registry have gaps or repeats",
    # -- models ---------------------------------------------------------------
    "gguf_alignment": "the alignment of a model is none that can be",
    "gguf_bad_text": "a text of a head is no UTF-8",
    "gguf_broken_header": "a head holds what it cannot, behind what was read",
    "gguf_counts": "a head states other counts than it has",
    "gguf_cut_header": "the file ends inside its head",
    "gguf_data_missing": "tensors reach beyond the end of the file",
    "gguf_gaps": "bytes between tensors belong to none",
    "gguf_impossible_tensor": "a shape or offset is larger than any file",
    "gguf_many_keys": "a head has more keys than are listed",
    "gguf_misaligned": "tensors do not begin where the alignment wants",
    "gguf_missing_part": "a part of a split model is not there",
    "gguf_new_version": "the version of a model is newer than those known",
    "gguf_odd_rows": "rows are no multiple of the blocks of their type",
    "gguf_out_of_order": "tensors lie in another order than they are listed",
    "gguf_overlaps": "tensors of a model overlap",
    "gguf_part_alone": "a part of a split model is opened without its first one",
    "gguf_part_number": "a part states another number than its name",
    "gguf_part_unreadable": "a part of a split model cannot be read",
    "gguf_repeated_key": "a head names a key twice",
    "gguf_repeated_tensor": "a head names a tensor twice",
    "gguf_split_count": "parts state another total than they have",
    "gguf_trailing_bytes": "bytes follow the last tensor",
    "gguf_unknown_type": "a tensor has a type that is not known",
    # -- graphs ---------------------------------------------------------------
    "bad_edge": "an edge has no source or target",
    "bad_node": "a node is no object",
    "bad_shape": "a shape is no list of whole numbers",
    "cycle": "edges lead back to where they came from",
    "duplicate_id": "two nodes share an id",
    "edge_label": "an edge does not say which source it is",
    "id_not_text": "an id of a node is no text",
    "layer_from_count": "a layer was read from a number that counts nodes",
    "layer_mismatch": "a node states another layer than its name",
    "missing_id": "a node has no id",
    "raw_label": "labels hold whole DOT records",
    "self_loop": "an edge leads from a node to itself",
    "truncated_graph": "the text of a graph ends too early",
    "type_was_suffix": "the type of a node is the suffix of its name",
    "undeclared_node": "edges name a node that the file does not declare",
    "undirected_edge": "an edge has no direction",
    "unescaped_quote": "a quote within a text is not escaped",
    "unknown_category": "a category is none that exporters write",
    "unknown_field": "nodes have fields that are not known",
    "unknown_statement": "a statement is none of DOT's",
    "unknown_type": "a type of a node is not known",
    "*_mismatch": "a file states another number of things than it has",
    # -- NPU ------------------------------------------------------------------
    "bad_line": "a line is no JSON object",
    "bandwidth_high": "a window moves more than 80 % of the peak, and no more than it",
    "bandwidth_over_peak": "a window moves more than the peak",
    "bandwidth_window_missing": "a bandwidth sample has no window",
    "bandwidth_window_negative": "a bandwidth window is shorter than nothing",
    "bandwidth_window_repeated": "two bandwidth samples have the same window",
    "bandwidth_window_unusable": "a bandwidth window is no number, or out of range",
    "bandwidth_window_zero": "a bandwidth window is 0 cycles long",
    "bandwidth_windows_overlap": "a bandwidth window begins before another one ends",
    "color_hint_unknown": "a colour hint names no colour",
    "cycle_missing": "an event has no cycle",
    "cycle_unusable": "a cycle is no number, or out of range",
    "cycles_total_too_small": "cycles_total is less than the last end cycle",
    "dependency_missing": "deps name what does not come before",
    "end_before_start": "an event ends before it starts",
    "event_not_object": "an event is no object",
    "event_without_type": "an event has no type",
    "field_missing": "a mandatory field is missing",
    "fractional_number": "a whole number has a fraction",
    "invalid_trace": "the simulator marked the trace as invalid",
    "invalid_utf8": "a text holds bytes that are no UTF-8",
    "negative_*": "a cycle or an amount of bytes is negative",
    "number_as_text": "a number is written as a text",
    "number_out_of_range": "a number is too large or too small",
    "pasted_copy": "comments or lines of a web page stand between the JSON",
    "sample_not_object": "a bandwidth sample is no object",
    "too_deep": "a value is nested too deeply",
    "too_many_ops": "there are more different ops than have numbers",
    "unknown_*": "a word is none of its list",
    "unknown_cmd_event": "a step of a command is none of the list",
    "unknown_token_phase": "the phase of a token is none of the list",
    "unknown_event_type": "an event has a type that the format does not define",
    "unknown_reason": "a stall has a reason that the format does not list",
    "version_malformed": "the version is no number",
    "version_missing": "the file has no version",
    "version_not_a_string": "the version is no text",
    "wrong_type": "a value has another type than the format wants",
    "nodes_not_recorded": "a graph has ops that no record of the trace has, "
    "though it has records of others",
    # -- completeness ---------------------------------------------------------
    "records_missing": "passes or layers that are alike, or the graph, have records "
    "that others lack",
    "choices_missing": "of the two lists of a token and layer one is missing or has "
    "fewer rows, or both are where most tokens have them",
    "records_altered": "records have another op or name than the same op in others",
    "tokens_missing": "token numbers go up by one, but for some that are skipped",
}


def text_of(node: ast.expr) -> str | None:
    """Return a text of the source with ``*`` for each replacement field."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(v.value) if isinstance(v, ast.Constant) else "*" for v in node.values
        )
    return None


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text("utf-8"))


def codes_in(path: Path) -> set[str]:
    """Return the codes of problems that a module reports."""
    names: set[str] = set()
    tree = tree_of(path)
    for node in ast.walk(tree):
        names.update(_codes_of(node))
    constants = {
        target.id: text
        for node in tree.body
        if isinstance(node, ast.Assign) and (text := text_of(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    named = {constants.get(code[1:], "") if code[:1] == "$" else code for code in names}
    return {code for code in named if re.fullmatch(r"[a-z*][a-z0-9_*]*", code)}


def _codes_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(value, ast.Tuple) and _has_severity(value.elts):
                yield from _texts(key)
        return
    items = (
        node.args
        if isinstance(node, ast.Call)
        else node.elts
        if isinstance(node, ast.Tuple)
        else []
    )
    for first, second in pairwise(items):
        if _is_severity(first):
            yield from _texts(second)
    if not isinstance(node, ast.Call) or not node.args:
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name in ("note", "loss", "error", "_fault", "_error"):
        yield from _texts(node.args[0])
    for keyword in node.keywords:
        if keyword.arg == "code":
            yield from _texts(keyword.value)


def _has_severity(items: list[ast.expr]) -> bool:
    return bool(items) and _is_severity(items[0])


def _is_severity(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_severity(node.body)
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Severity"
    )


def _texts(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _texts(value)
    elif isinstance(node, ast.Name):
        yield f"${node.id}"  # a constant of the module, or a variable
    elif node is not None and (text := text_of(node)):
        yield text


def texts_in(path: Path) -> set[str]:
    """Return every text that stands in a module, documentation left out."""
    tree = tree_of(path)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
    return {
        text
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in skipped
        if (text := text_of(node)) is not None
    }
