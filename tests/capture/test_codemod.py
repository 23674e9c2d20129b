"""Sources that are changed so that a static build can be traced, and changed back.

The checkout is made here: a ggml of three ops, in files of the names and with the
declarations that matter. It is compiled into one program without any library.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope_capture import codemod, doctor
from ggscope_capture.__main__ import main

HERE = Path(__file__).parent
CPU = """\
#include "ggml.h"
// ggml_barrier( in a comment is no definition
void ggml_barrier(struct ggml_threadpool * tp) {
    if (tp) {
        return;
    }
}

static int helper(void) {
    ggml_barrier(0);  // nor is this call
    return ggml_cpu_extra_compute_forward(0, 0);
}

enum ggml_status ggml_graph_compute(
        struct ggml_cgraph * cgraph,
        struct ggml_cplan * cplan) {
    return cgraph && cplan ? 0 : helper();
}

int main(void) {
    return ggml_graph_compute(0, 0) == 7 ? 0 : 1;
}
"""
TRAITS = """\
extern "C" {
#include "ggml.h"
}
namespace ggml::cpu {
int unrelated() { return 1; }
}
bool ggml_cpu_extra_compute_forward(struct ggml_compute_params * params,
                                    struct ggml_tensor * op) {
    return params == nullptr && op == nullptr;
}
"""
HEADER = """\
#pragma once
#include <stdbool.h>
#define GGML_API extern
enum ggml_status { OK };
struct ggml_tensor; struct ggml_cgraph; struct ggml_cplan; struct ggml_threadpool;
struct ggml_compute_params;
GGML_API void ggml_barrier(struct ggml_threadpool * tp);
GGML_API bool ggml_cpu_extra_compute_forward(
    struct ggml_compute_params *, struct ggml_tensor *);
GGML_API enum ggml_status ggml_graph_compute(
    struct ggml_cgraph *, struct ggml_cplan *);
"""
# Stands in for the tracer: is asked, and computes 7 without the program's own.
TRACER = """
#include <stdio.h>
#include <string.h>
static int graph(void *graph, void *plan) { (void)graph; (void)plan; return 7; }
void *ggscope_source(const char *name, void *own)
{
    fprintf(stderr, "%s %d\\n", name, own != 0);
    return strcmp(name, "ggml_graph_compute") ? 0 : (void *)graph;
}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    made = tmp_path / "llama.cpp with space"
    for name, text in (
        ("ggml/include/ggml.h", HEADER),
        ("ggml/src/ggml-cpu/ggml-cpu.c", CPU),
        ("ggml/src/ggml-cpu/traits.cpp", TRAITS),
        ("src/llama.cpp", "// nothing\r\n\xff"),
    ):
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return made


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_undo_gives_every_byte_back(checkout: Path) -> None:
    before = digests(checkout)

    changed = codemod.apply(checkout)
    between = digests(checkout)
    codemod.undo(checkout)

    assert [path.name for path in changed] == ["ggml-cpu.c", "traits.cpp"]
    assert len(set(before.items()) - set(between.items())) == 2
    assert digests(checkout) == before


def test_twice_is_once(checkout: Path) -> None:
    codemod.apply(checkout)
    once = digests(checkout)

    assert codemod.apply(checkout) == []
    assert digests(checkout) == once
    assert set(codemod.REQUIRED) == set(codemod.inspect(checkout).changed)


def test_missing_functions_are_named_and_nothing_is_changed(checkout: Path) -> None:
    traits = checkout / "ggml" / "src" / "ggml-cpu" / "traits.cpp"
    traits.write_text("// of another era\n")
    before = digests(checkout)

    with pytest.raises(codemod.CodemodError, match="ggml_cpu_extra_compute_forward"):
        codemod.apply(checkout)

    missing = codemod.inspect(checkout).missing
    assert missing["ggml_cpu_extra_compute_forward"] is True
    assert missing["llama_decode"] is False
    assert digests(checkout) == before


def test_undo_of_what_is_no_checkout_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codemod", str(tmp_path / "none"), "--undo"]) == 1
    assert "is not a llama.cpp checkout" in capsys.readouterr().err


def test_command_checks_changes_and_undoes(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digests(checkout)

    assert main(["codemod", str(checkout), "--check"]) == 0
    assert digests(checkout) == before
    assert "llama_decode: missing (not required)" in capsys.readouterr().out
    assert main(["codemod", str(checkout)]) == 0
    assert main(["codemod", str(checkout), "--undo"]) == 0
    assert digests(checkout) == before


def test_other_folders_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codemod", str(tmp_path)]) == 1
    assert "is not a llama.cpp checkout" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler here")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="uses LD_PRELOAD")
def test_changed_program_asks_for_the_tracer_and_does_without(
    checkout: Path, tmp_path: Path
) -> None:
    codemod.apply(checkout)
    folder, include = checkout / "ggml/src/ggml-cpu", f"-I{checkout}/ggml/include"
    program, tracer = tmp_path / "static", tmp_path / "tracer.so"
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", include]
    objects = [tmp_path / "cpu.o", tmp_path / "traits.o"]
    (tmp_path / "t.c").write_text(TRACER)
    for command in (
        ["cc", "-D_GNU_SOURCE", *strict, "-c", folder / "ggml-cpu.c", "-o", objects[0]],
        ["c++", *strict, "-std=c++17", "-c", folder / "traits.cpp", "-o", objects[1]],
        ["c++", *objects, "-ldl", "-o", program],
        ["cc", "-shared", "-fPIC", tmp_path / "t.c", "-o", tracer],
    ):
        subprocess.run(command, check=True)

    alone = subprocess.run([program], check=False, stderr=subprocess.PIPE)
    traced = subprocess.run(
        [program], check=False, stderr=subprocess.PIPE,
        env=os.environ | {"LD_PRELOAD": str(tracer)},
    )  # fmt: skip

    assert (alone.returncode, alone.stderr) == (1, b"")
    assert traced.returncode == 0
    names = set(traced.stderr.decode().splitlines())
    assert names == {f"{name} 1" for name in codemod.REQUIRED}


def test_doctor_knows_a_changed_static_program(checkout: Path, tmp_path: Path) -> None:
    if shutil.which("c++") is None or not sys.platform.startswith("linux"):
        pytest.skip("compiles an ELF program")
    codemod.apply(checkout)
    source = checkout / "ggml/src/ggml-cpu"
    program = tmp_path / "static"
    marks = tmp_path / "a.c"
    marks.write_text('const char *complaint = "GGML_ASSERT";')
    subprocess.run(
        ["c++", "-x", "c", "-D_GNU_SOURCE", f"-I{checkout}/ggml/include",
         source / "ggml-cpu.c", marks, "-x", "c++", source / "traits.cpp", "-ldl",
         "-o", program],
        check=True,
    )  # fmt: skip

    report = doctor.examine(program)

    assert report.linkage == "static"
    assert [route.works for route in report.routes] == [False, True]
    assert "codemod" in json.dumps(report.as_json())
