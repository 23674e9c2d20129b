"""Formats of other programs are named with the command that makes them openable."""

import gzip
import shlex
import subprocess
from pathlib import Path

import pytest

import bench_files
from ggscope.errors import ReadError, UnknownFormatError
from ggscope.readers import registry
from ggscope.readers.closed_formats import (
    CLOSED_FORMATS,
    ClosedFormat,
    closed_format,
    format_of_folder,
    remedy_of,
)
from ggscope.readers.discovery import run_folder, survey
from ggscope.session_loading import open_bundle

ROOT = Path(__file__).parents[3]
ETL = (
    b"\0\0\1\0" + bytes(68) + b"\2\0\2\xc0" + bytes(200)
)  # of 64 bits; its first buffer has 64 KiB
HEADS = {
    "a Linux perf recording": (b"PERFILE2" + bytes(96), b"PERFFILE" + bytes(96)),
    "a report of NVIDIA Nsight Compute": (b"NVR\0" + bytes(60),),
    "a recording of Tracy": (
        b"tr\xfdP\1\0\0\0" + bytes(60),
        b"tlZ\4" + bytes(60),
        b"tZst" + bytes(60),
    ),
    "an event trace of Windows (ETW)": (ETL,),
    "an event trace of .NET": (b"Nettrace\x14\0\0\0!FastSerialization.1",),
    "an XPlane profile of JAX or TensorFlow": (
        b"\x0a\x90\x01\x12\x09/host:CPU" + bytes(60),
        b"\x0a\x90\x01\x08\x01\x12\x0d/device:TPU:0" + bytes(60),
    ),
    "folded stacks of two profiles (difffolded.pl), two counts a line": (
        b"main;a;b 10 15\nmain;a;c 5 0\nmain;d 0 7\n",
    ),
    "the output of perf script without names of events": (
        b"python3 27881 11175.292654: \n\t  1462a handle_amd\n\t  0 [unknown]\n\n",
        b"python3 27881/27882 [001] 11175.292654:\n\t  1462a main\n\n",
    ),
    "an execution trace of Go": (b"go 1.19 trace\0\0\0A\0\xbc\xd8" + bytes(40),),
    "a table of memory of an Ascend profiler": (
        b"Component,Timestamp(us),Total Allocated(KB),Device\nPTA,100.5,10.0,NPU:0\n",
        b"Name,Size(KB),Allocation Time(us),Device Type\naten::add,2.0,1.5,NPU:0\n",
    ),
    "the times of runs of trtexec (--exportTimes)": (
        b'[\n  { "startInMs" : 0.1, "endInMs" : 0.2, "latencyMs" : 0.1 }\n]\n',
    ),
    "a memory timeline of PyTorch (export_memory_timeline)": (
        b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]",
    ),
    "an XML export of Apple's Instruments": (
        b'<?xml version="1.0"?>\n<trace-query-result>\n</trace-query-result>\n',
    ),
    "text in UTF-16, as PowerShell redirects it": (
        "[1, 2]".encode("utf-16-le").join((b"\xff\xfe", b"")),
        "[1, 2]".encode("utf-16-be").join((b"\xfe\xff", b"")),
    ),
    "a Parquet table": (b"PAR1\x15\4\x15" + bytes(60),),
}
BINARY = b"\x07\x91\xb3\xfe\0\1\2\3" * 40


def _refusal(path: Path) -> UnknownFormatError:
    with pytest.raises(UnknownFormatError) as caught:
        registry.open_trace(path)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "head"), [(kind, head) for kind, heads in HEADS.items() for head in heads]
)
def test_file_with_a_signature_is_known_whatever_its_name(
    tmp_path: Path, kind: str, head: bytes
) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(head)

    error = _refusal(path)

    assert kind in error.message
    assert error.command or error.hint
    assert "--format" not in error.hint or error.command


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"main;a;b 10\nmain;a;c 5\n", "folded stacks"),
        (b"main;a;b 10 15\nmain;a;c 5 0\n", "difffolded"),
        (b"srv  update_slots: all slots are idle\n" * 9, "a log of llama.cpp"),
        (b"no format has this\n", "a gzip archive"),
    ],
)
def test_packed_text_is_named_with_the_command_that_unpacks_it(
    tmp_path: Path, text: bytes, kind: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(text))

    error = _refusal(path)
    subprocess.run(["sh", "-c", error.command], check=True)

    assert kind in error.message
    assert "no reader" not in error.message
    assert path.with_name("x.unpacked").read_bytes() == text
    assert gzip.decompress(path.read_bytes()) == text


@pytest.mark.parametrize("form", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_opens_after_the_command_of_its_refusal(
    tmp_path: Path, form: str
) -> None:
    text = "\ufeff" + bench_files.text("json").decode().replace("\n", "\r\n")
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode(form))

    subprocess.run(["sh", "-c", _refusal(path).command], check=True)

    trace = registry.open_trace(tmp_path / "x.utf8.txt")
    assert trace.bench is not None
    assert len(trace.bench) == len(bench_files.rows(1))


def test_packed_file_that_nothing_reads_has_no_command_to_unpack_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.raw.gz"
    path.write_bytes(gzip.compress(b"[[-1, 1, 37888, 7], [-1, 1, 512, 7]]"))

    error = _refusal(path)

    assert "memory timeline of PyTorch" in error.message
    assert not error.command


def test_differential_folded_stacks_split_into_two_profiles(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"main;a b 10 15\nmain;c 5 0\n")

    subprocess.run(["sh", "-c", _refusal(path).command], check=True)

    before, after = tmp_path / "x.before.folded", tmp_path / "x.after.folded"
    assert before.read_bytes() == b"main;a b 10\nmain;c 5\n"
    assert after.read_bytes() == b"main;a b 15\nmain;c 0\n"
    assert registry.open_trace(before).info.reader_id == "folded"


def test_every_signature_has_a_file_above() -> None:
    known = {known.kind for known in CLOSED_FORMATS if known.heads}

    assert known == set(HEADS)


@pytest.mark.parametrize(
    ("known", "suffix"), [(k, suffix) for k in CLOSED_FORMATS for suffix in k.suffixes]
)
def test_binary_file_without_a_signature_is_known_by_its_name(
    tmp_path: Path, known: ClosedFormat, suffix: str
) -> None:
    path = tmp_path / f"run{suffix.upper()}"
    path.write_bytes(BINARY)

    error = _refusal(path)

    assert known.kind in error.message
    assert error.command in error.hint


@pytest.mark.parametrize("suffix", [".etl", ".nsys-rep", ".tracy"])
def test_text_of_another_suffix_is_judged_by_its_content(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"notes{suffix}"
    path.write_text("hello world\nmore\n")

    error = _refusal(path)

    assert "hello world" in error.message
    assert not error.command


def test_content_that_is_known_goes_before_the_name(tmp_path: Path) -> None:
    path = tmp_path / "model.etl"
    path.write_bytes(b"PERFILE2" + bytes(96))

    assert "Linux perf" in _refusal(path).message


@pytest.mark.parametrize(
    ("folder", "members", "kind"),
    [
        ("run.trace", ("Trace1.run/",), "Instruments"),
        ("moved", ("Trace1.run/", "form.template"), "Instruments"),
        ("frame.gputrace", ("store0",), "Metal"),
        ("frame", ("store0", "metadata", "index"), "Metal"),
        ("r000hs", ("r000hs.vtune", "config/", "data.0/"), "VTune"),
    ],
)
def test_bundle_is_refused_as_a_whole(
    tmp_path: Path, folder: str, members: tuple[str, ...], kind: str
) -> None:
    bundle = tmp_path / folder
    bundle.mkdir()
    for member in members:
        place = bundle / member
        place.mkdir() if member.endswith("/") else place.write_bytes(BINARY)

    alone = _refusal(bundle)
    within = survey([tmp_path])
    with pytest.raises(UnknownFormatError) as caught:
        open_bundle(survey([bundle]))

    assert kind in alone.message
    assert caught.value.hint == alone.hint
    assert caught.value.command == alone.command
    assert [skipped.path for skipped in within.skipped] == [bundle]
    assert kind in within.skipped[0].reason
    assert alone.hint in within.skipped[0].reason
    assert not run_folder(tmp_path).runs


def test_folder_of_traces_is_no_bundle_for_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "run.trace"
    folder.mkdir()
    (folder / "notes.txt").write_text("hello")

    with pytest.raises(ReadError) as caught:
        open_bundle(survey([folder]))

    assert not isinstance(caught.value, UnknownFormatError)
    assert format_of_folder("run.trace", ["notes.txt"]) is None
    assert format_of_folder("run", ["store0"]) is None


def test_command_quotes_the_name_of_the_file() -> None:
    nsys = next(k for k in CLOSED_FORMATS if ".nsys-rep" in k.suffixes)
    parquet = next(k for k in CLOSED_FORMATS if ".parquet" in k.suffixes)
    name = "/x/it's a $(run).nsys-rep"

    arguments = shlex.split(remedy_of(nsys, Path(name)).command)
    sql = shlex.split(remedy_of(parquet, Path("/x/it's $A.parquet")).command)

    assert arguments[-2:] == [name.removesuffix("nsys-rep") + "sqlite", name]
    assert "read_parquet('/x/it''s $A.parquet')" in sql[-1]


@pytest.mark.parametrize(
    "name", ["a\nb.nsys-rep", "a\x1b[31m.nsys-rep", "\u202ea.qdrep"]
)
def test_name_that_a_terminal_would_not_show_stays_out(name: str) -> None:
    nsys = next(k for k in CLOSED_FORMATS if ".nsys-rep" in k.suffixes)

    remedy = remedy_of(nsys, Path("/x") / name)

    assert remedy.command.endswith(" FILE")
    assert remedy.sentence.isprintable()


def test_result_of_vtune_is_the_folder_of_its_file(tmp_path: Path) -> None:
    result = tmp_path / "r000hs"
    (result / "config").mkdir(parents=True)
    inner = result / "r000hs.vtune"
    inner.write_text('<?xml version="1.0"?><bag/>')

    assert f"-result-dir {result} " in _refusal(inner).command
    assert f"-result-dir {result} " in _refusal(result).command


@pytest.mark.parametrize("length", [0, 1, 4, 8, 75, 76])
def test_cut_heads_are_no_other_format(length: int) -> None:
    for kind, heads in HEADS.items():
        for head in heads:
            known = closed_format(head[:length])
            assert known is None or known.kind == kind


def test_page_of_formats_lists_every_suffix() -> None:
    page = (ROOT / "resources/docs/formats/index.md").read_text(encoding="utf-8")

    for known in CLOSED_FORMATS:
        for suffix in known.suffixes:
            assert f"`{suffix}`" in page
        program = shlex.split(known.command)[0] if known.command else ""
        assert program in page
