"""What is read from a program's files before it runs.

The programs are compiled here: small ones with the functions of ggml that matter, put
together in the ways in which llama.cpp is.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope_capture import doctor
from ggscope_capture.__main__ import main

CPU = """
void ggml_barrier(void *p) { (void)p; }
int ggml_cpu_extra_compute_forward(void *p) { ggml_barrier(p); return 0; }
int ggml_graph_compute(void *p) { return ggml_cpu_extra_compute_forward(p); }
int compute(void *p) { return ggml_graph_compute(p); }
const char *complaint = "GGML_ASSERT(%s) failed";
"""
REGISTRY = "int ggml_backend_load_all_from_path(const char *p) { return p != 0; }"
BACKEND = CPU + "int ggml_backend_init(void) { return 0; }"
LLAMA = CPU + "int llama_decode(void *p) { return ggml_graph_compute(p); }"
MAIN = "int {f}(void *); int main(void) {{ return {f}(0) == 7; }}"

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="ELF programs are compiled here"
)


def compiled(target: Path, source: str, *flags: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    text = target.with_name(f"{target.name}.c")
    text.write_text(source)
    subprocess.run(["cc", "-o", target, text, *flags], check=True, capture_output=True)
    text.unlink()
    return target


def library(target: Path, source: str, *flags: str) -> Path:
    return compiled(target, source, "-shared", "-fPIC", *flags)


def linked(folder: Path, lib: str, function: str) -> Path:
    main = MAIN.format(f=function)
    flags = [f"-L{folder}", f"-l{lib}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed"]
    return compiled(folder / "llama-completion", main, *flags)


def report_text(program: Path) -> str:
    """Return what is said of a file that may be damaged."""
    try:
        report = doctor.examine(program)
    except doctor.DoctorError as error:
        return str(error)
    return json.dumps(report.as_json())


def answers(report: doctor.Report) -> dict[str, bool | None]:
    return {route.variable: route.works for route in report.routes}


def test_linked_libraries_are_entered_by_preload(tmp_path: Path) -> None:
    library(tmp_path / "libggml-cpu.so", CPU)
    program = linked(tmp_path, "ggml-cpu", "ggml_graph_compute")

    report = doctor.examine(program)

    assert report.linkage == "shared"
    assert answers(report) == {"GGML_BACKEND_PATH": False, "LD_PRELOAD": True}
    assert str(program) in report.advice


def test_libraries_of_libraries_are_followed(tmp_path: Path) -> None:
    library(tmp_path / "libggml-cpu.so", CPU)
    library(
        tmp_path / "libllama.so",
        "int ggml_graph_compute(void *); int f(void *p){return ggml_graph_compute(p);}",
        f"-L{tmp_path}", "-lggml-cpu", "-Wl,-rpath,$ORIGIN",
    )  # fmt: skip
    program = linked(tmp_path, "llama", "f")

    assert doctor.examine(program).linkage == "shared"


def test_one_library_with_everything(tmp_path: Path) -> None:
    library(tmp_path / "libllama.so", LLAMA)
    program = linked(tmp_path, "llama", "llama_decode")

    report = doctor.examine(program)

    assert report.linkage == "one-library"
    assert answers(report)["LD_PRELOAD"] is True


def test_calls_without_slots_are_reported(tmp_path: Path) -> None:
    library(tmp_path / "libggml-cpu.so", CPU, "-Wl,-Bsymbolic")
    program = linked(tmp_path, "ggml-cpu", "ggml_graph_compute")

    report = doctor.examine(program)

    assert "only begins of ops" in report.routes[1].why


def test_dynamic_backends_are_entered_by_ggml_itself(tmp_path: Path) -> None:
    library(tmp_path / "libggml.so", REGISTRY)
    library(tmp_path / "libggml-cpu-x64.so", BACKEND)
    library(tmp_path / "libggml-cpu-zen4.so", BACKEND)
    program = linked(tmp_path, "ggml", "ggml_backend_load_all_from_path")

    report = doctor.examine(program)

    assert report.linkage == "dynamic-backends"
    assert answers(report) == {"GGML_BACKEND_PATH": True, "LD_PRELOAD": True}
    assert "2 CPU variants" in report.routes[0].why


def test_dynamic_backends_that_are_missing_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(tmp_path / "libggml.so", REGISTRY)
    program = linked(tmp_path, "ggml", "ggml_backend_load_all_from_path")
    monkeypatch.chdir(tmp_path)

    report = doctor.examine(program)

    assert report.works is False
    assert "no libggml-cpu" in report.routes[0].why


@pytest.mark.parametrize("strips", [[], ["-s"]])
def test_ggml_within_the_program_is_closed(tmp_path: Path, strips: list[str]) -> None:
    main = MAIN.format(f="ggml_graph_compute")
    program = compiled(tmp_path / "llama-cli", CPU + main, *strips)

    report = doctor.examine(program)

    assert report.linkage == "static"
    assert answers(report) == {"GGML_BACKEND_PATH": False, "LD_PRELOAD": False}
    assert "BUILD_SHARED_LIBS" in report.advice


def test_exported_symbols_of_a_program_are_no_library(tmp_path: Path) -> None:
    main = MAIN.format(f="ggml_graph_compute")
    program = compiled(tmp_path / "llama-cli", CPU + main, "-rdynamic")

    assert doctor.examine(program).linkage == "static"


def test_program_without_libraries_is_closed(tmp_path: Path) -> None:
    main = MAIN.format(f="ggml_graph_compute")
    program = compiled(tmp_path / "llama-cli", CPU + main, "-static")

    assert doctor.examine(program).linkage == "fully-static"


def test_program_with_other_rights_is_closed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    program = compiled(tmp_path / "llama-cli", "int main(void) { return 0; }")
    os.chown(program, 1234, 1234)
    program.chmod(0o4755)

    assert doctor.examine(program).linkage == "setuid"


def test_program_of_another_machine_is_closed(tmp_path: Path) -> None:
    program = compiled(tmp_path / "llama-cli", "int main(void) { return 0; }")
    content = bytearray(program.read_bytes())
    content[18:20] = (243).to_bytes(2, "little")  # RISC-V
    program.write_bytes(content)

    report = doctor.examine(program)

    assert report.linkage == "other-machine"
    assert "EM_RISCV" in report.routes[0].why


def test_programs_without_ggml_may_start_one_that_has() -> None:
    report = doctor.examine("/bin/ls")

    assert report.linkage == "no-ggml"
    assert report.works is None


def test_scripts_and_interpreters_are_known(tmp_path: Path) -> None:
    script = tmp_path / "serve"
    script.write_text("#!/usr/bin/env python3\n")
    script.chmod(0o755)
    shell = tmp_path / "llama.sh"
    shell.write_text("#!/bin/sh\nexec llama-server\n")
    shell.chmod(0o755)

    assert doctor.examine(script).linkage == "script"
    assert "Python" in doctor.examine(script).routes[0].why
    assert "script run by sh" in doctor.examine(shell).routes[0].why
    assert doctor.examine(os.path.realpath(sys.executable)).linkage == "python"


def test_text_without_a_first_line_of_its_own_is_a_script_of_sh(tmp_path: Path) -> None:
    serve = tmp_path / "serve"
    serve.write_text("exec llama-server\n")
    serve.chmod(0o755)
    notes = tmp_path / "notes.txt"
    notes.write_text("exec llama-server\n")

    assert doctor.examine(serve).linkage == "script"
    assert "script run by sh" in doctor.examine(serve).routes[0].why
    with pytest.raises(doctor.DoctorError, match="is not a program"):
        doctor.examine(notes)


def test_binding_beside_a_python_is_found(tmp_path: Path) -> None:
    python = compiled(tmp_path / "bin" / "python3", "int main(void) { return 0; }")
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    library(packages / "llama_cpp" / "lib" / "libggml-cpu.so", CPU)
    library(
        packages / "llama_cpp" / "lib" / "libllama.so",
        "int ggml_graph_compute(void *); int f(void *p){return ggml_graph_compute(p);}",
        f"-L{packages}/llama_cpp/lib", "-lggml-cpu", "-Wl,-rpath,$ORIGIN",
    )  # fmt: skip
    script = tmp_path / "serve"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)

    for program, linkage in ((python, "python"), (script, "script")):
        report = doctor.examine(program)

        assert report.linkage == linkage
        assert answers(report) == {"GGML_BACKEND_PATH": False, "LD_PRELOAD": True}
        assert "llama-cpp-python: calls within libggml-cpu.so" in report.routes[1].why
        assert str(program) in report.advice


def test_every_cut_of_a_program_is_reported_in_words(tmp_path: Path) -> None:
    library(tmp_path / "libggml-cpu.so", CPU)
    program = linked(tmp_path, "ggml-cpu", "ggml_graph_compute")
    content = program.read_bytes()

    for cut in range(0, len(content), 311):
        program.write_bytes(content[:cut])
        assert str(program) in report_text(program)


def test_every_changed_byte_of_the_heads_is_reported_in_words(tmp_path: Path) -> None:
    library(tmp_path / "libggml-cpu.so", CPU)
    program = linked(tmp_path, "ggml-cpu", "ggml_graph_compute")
    content = program.read_bytes()

    for place in range(4, 1200, 7):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        program.write_bytes(changed)
        assert str(program) in report_text(program)


def test_command_prints_the_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library(tmp_path / "libggml-cpu.so", CPU)
    program = linked(tmp_path, "ggml-cpu", "ggml_graph_compute")

    code = main(["doctor", str(program), "--json"])

    data = json.loads(capsys.readouterr().out)
    assert code == 0
    assert list(data) == ["program", "linkage", "doors", "advice", "checks"]
    assert [list(entry_point) for entry_point in data["doors"]] == [
        ["door", "works", "why"]
    ] * 2


def test_missing_program_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "no-such-llama"]) == 1
    assert "program no-such-llama not found" in capsys.readouterr().err


def test_names_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = compiled(tmp_path / "a\x1b[2Jb", "int main(void) { return 0; }")

    main(["doctor", str(program)])

    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("package", "linkage"),
    [("npm_llama", "dynamic-backends"), ("pypi_llama", "one-library")],
)
def test_unmodified_packages_are_known(
    package: str, linkage: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(package).path
    if path.is_dir():
        path = next(path.glob("libllama.*"))

    report = doctor.examine(path)

    assert report.linkage == linkage
    assert answers(report)["LD_PRELOAD"] is True
    assert all("cannot be intercepted" not in route.why for route in report.routes)
