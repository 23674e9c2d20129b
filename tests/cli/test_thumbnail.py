"""``ggscope thumbnail``: a small picture, in time or not at all."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

from ggscope.assets import APPLICATION_ID
from ggscope.cli import main, thumbnail
from ggscope.readers.registry import open_trace
from statements import new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
LLAMA = SAMPLES / "llama.ggmlviz"
TENSOR = SAMPLES / "tinyllama-256.bin"


def colours(image: QImage, x0: int, x1: int) -> set[int]:
    return {image.pixel(x, y) for x in range(x0, x1) for y in range(image.height())}


@pytest.mark.parametrize("size", [16, 128, 256, 512])
@pytest.mark.parametrize("path", [LLAMA, TENSOR], ids=lambda p: p.suffix)
def test_picture_has_the_size_that_was_asked_for(
    path: Path, size: int, tmp_path: Path
) -> None:
    target = tmp_path / "without a suffix"

    assert main(["thumbnail", str(path), str(target), str(size)]) == 0

    assert target.read_bytes().startswith(b"\x89PNG")
    image = QImage(str(target))
    assert (image.width(), image.height()) == (size, size * 3 // 4)
    assert len(colours(image, 0, size)) > 1


def test_nameless_copy_is_drawn_by_its_magic_number(tmp_path: Path) -> None:
    source, target = tmp_path / "nameless", tmp_path / "out"
    source.write_bytes(LLAMA.read_bytes())

    assert main(["thumbnail", str(source), str(target)]) == 0

    assert QImage(str(target)).width() == 256


def test_part_of_a_larger_file_ends_in_a_hatch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "out.png"
    main(["thumbnail", "--json", str(TENSOR), str(target), "256"])
    whole, data = QImage(str(target)), json.loads(capsys.readouterr().out)
    monkeypatch.setattr(thumbnail, "MAX_RECORDS", 1000)

    assert main(["thumbnail", "--json", str(TENSOR), str(target), "256"]) == 0

    part, told_part = QImage(str(target)), json.loads(capsys.readouterr().out)
    assert (data["is_part"], told_part["is_part"]) == (False, True)
    assert (told_part["width"], told_part["height"]) == (256, 192)
    bars = colours(whole, 0, 224)
    assert len(colours(part, 0, 220) & bars) > 2
    # Nothing of the bars, and no flat surface either.
    assert not colours(part, 230, 256) & {whole.pixel(5, 100), whole.pixel(20, 100)}
    assert len(colours(part, 230, 256)) > 1


def test_sparse_file_is_drawn_whole_and_not_read_whole(tmp_path: Path) -> None:
    source, target = tmp_path / "tensor_trace.bin", tmp_path / "out"
    source.write_bytes(TENSOR.read_bytes())
    os.truncate(source, 1 << 31)

    assert main(["thumbnail", str(source), str(target)]) == 0

    main(["thumbnail", str(TENSOR), str(tmp_path / "whole")])
    assert QImage(str(target)) == QImage(str(tmp_path / "whole"))


def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "out"

    def stderr_of(path: Path, code: int = 1) -> str:
        assert main(["thumbnail", str(path), str(target)]) == code
        return capsys.readouterr().err

    header = tmp_path / "header.ggmlviz"
    header.write_bytes(LLAMA.read_bytes()[:12])
    empty = stderr_of(header)
    stderr_of(Path("/etc/hostname"), 3)
    main(["convert", str(TENSOR), "--to", "token-json", "-o", str(tmp_path / "t")])
    text = tmp_path / "t" / "token-00000.json"
    monkeypatch.setattr(thumbnail, "MAX_BYTES", 10)
    large = stderr_of(text)

    assert not target.exists()
    assert "header.ggmlviz: no spans to draw." in empty
    assert new_statements(large, empty)


def test_reading_that_takes_too_long_is_given_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(thumbnail, "PATIENCE_S", 0.0)

    def slow(path, context):
        while True:
            context.check_cancelled()

    monkeypatch.setattr(thumbnail, "open_trace", slow)

    assert main(["thumbnail", str(LLAMA), str(tmp_path / "out")]) == 1

    assert "cannot be read within 0 seconds" in capsys.readouterr().err


def test_trace_itself_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "x.ggmlviz"
    source.write_bytes(LLAMA.read_bytes())

    assert main(["thumbnail", str(source), str(source)]) == 1

    assert open_trace(source) is not None
    assert "writing would destroy it" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "15", "1025", "-1", "x", "1e2", "²"])
def test_odd_sizes_are_a_mistake(
    size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["thumbnail", str(LLAMA), str(tmp_path / "out"), "--", size]) == 2
    assert not (tmp_path / "out").exists()


def test_line_of_the_file_manager_makes_a_picture(tmp_path: Path) -> None:
    text = (ROOT / f"resources/desktop/{APPLICATION_ID}.thumbnailer").read_text()
    line = next(line for line in text.splitlines() if line.startswith("Exec="))
    source, target = tmp_path / "a 'trace", tmp_path / "out"
    source.write_bytes(LLAMA.read_bytes())
    values = {"%i": str(source), "%o": str(target), "%s": "128"}
    texts = [values.get(word, word) for word in shlex.split(line[5:])]
    assert texts[0] == "ggscope"

    done = subprocess.run(
        [sys.executable, "-m", *texts],
        # As bare as a sandbox makes it.
        env={"PATH": "/usr/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert QImage(str(target)).width() == 128
