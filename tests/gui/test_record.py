"""Running a program from the window: before, while it runs, and at its end."""

import json
import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox, QTabBar

import cuda_programs
import traced_program
from ggscope.errors import LiveError
from ggscope.gui import live as strip_module
from ggscope.gui.dialogs import record as record_module
from ggscope.gui.dialogs.record import RecordDialog
from ggscope.gui.live import LiveStrip
from ggscope.live import launcher
from ggscope.live.launcher import LaunchSpec, Target
from ggscope.session import live as live_module
from ggscope.session import live_pace
from ggscope.session import run as run_module
from ggscope.session.tasks import Tasks
from ggscope_capture import models
from messages import newest_message, toast
from pages import end_pause, is_settled, tab_row, waiting_console
from panes import pane, texts_of_widgets, titles_of
from statements import new_statement, new_statements
from support import ROOT

PATIENCE = 20_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return traced_program.build(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "nano é.gguf"
    models.write_model(path, "nano")
    return path


@pytest.fixture
def rings(tmp_path):
    """A folder for rings, which is empty when all has ended."""
    folder = tmp_path / "rings"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


@pytest.fixture
def traced(monkeypatch, built, rings):
    def call(**options):
        traced_program.set_up(monkeypatch, built, rings, **options)

    return call


@pytest.fixture
def dialog(window, qtbot):
    window.actions_["file.record"].trigger()
    (made,) = window.findChildren(RecordDialog)
    qtbot.waitUntil(lambda: is_settled(made), timeout=PATIENCE)
    yield made
    for left in window.findChildren(RecordDialog):
        left.close()


def test_window_that_closes_ends_what_its_dialog_looks_for(window, qtbot, monkeypatch):
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(launcher, "tool", lambda: sleeps)
    before = set(psutil.Process().children())
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    (tasks,) = dialog.findChildren(Tasks)
    qtbot.waitUntil(lambda: set(psutil.Process().children()) > before, timeout=PATIENCE)

    window.close()

    assert tasks.is_closed
    qtbot.waitUntil(
        lambda: set(psutil.Process().children()) == before, timeout=PATIENCE
    )


def looked(dialog, qtbot):
    qtbot.waitUntil(
        lambda: is_settled(dialog),
        timeout=PATIENCE,
    )


@pytest.fixture
def run(window, built, tmp_path):
    """Return a function that runs the program with arguments."""

    def call(*arguments, path=None, check=None):
        target = Target(str(path or built["program"]))
        output = tmp_path / "out" / "run.bin"
        spec = LaunchSpec(target=target, output=str(output), more=shlex.join(arguments))
        window.record(spec, check)
        return window.document

    return call


def strip_of(document):
    return document.findChild(LiveStrip)


def press(document, name):
    """Press a button of the newest message."""
    buttons = {each.text(): each for each in toast(document).buttons}
    buttons[name].click()


def text_of(run):
    return "".join(text for _, text in run.output_chunks())


def console_of(document, qtbot):
    qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=PATIENCE)
    return pane(document, "console")


def ended(document, qtbot):
    qtbot.waitUntil(lambda: not document.run.is_running, timeout=PATIENCE)


def n_spans(document):
    trace = document.session.trace
    return 0 if trace is None else len(trace.spans)


# -- before ----------------------------------------------------------------


def test_program_and_model_are_looked_at_and_the_command_is_copied(
    dialog, qtbot, built, model
):
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    assert dialog.model_text.text() == "Choose a GGUF model."
    assert not dialog.start.isEnabled()
    dialog.model.setEditText(str(model))
    dialog.prompt.setText("it's a test")
    dialog.more.setText("--temp 0")
    looked(dialog, qtbot)

    assert dialog.program_text.text().startswith("Can be traced: ")
    text = dialog.model_text.text()
    assert text.startswith("llama · ")
    assert " parameters · F16 · 2 layers · " in text
    assert dialog.start.isEnabled()
    dialog.copy.click()
    parts = shlex.split(QApplication.clipboard().text())
    assert parts[:3] == ["ggscope-capture", "run", "-o"]
    assert parts[4:8] == ["--", str(built["program"]), "-m", str(model)]
    assert parts[8:10] == ["-p", "it's a test"]
    assert parts[-2:] == ["--temp", "0"]


def test_no_command_is_shown_before_there_is_a_program(dialog, qtbot, built):
    dialog.program.setEditText("")
    looked(dialog, qtbot)
    assert dialog.command.full_text == ""
    assert not dialog.copy.isEnabled()
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    assert dialog.command.full_text.startswith("ggscope-capture run ")


def test_open_quotation_in_the_arguments_is_reported(dialog, qtbot, built):
    dialog.program.setEditText(str(built["program"]))
    dialog.more.setText("'open")
    looked(dialog, qtbot)

    assert "quotation in the further arguments has no end" in dialog.command.full_text
    assert not dialog.start.isEnabled()
    assert not dialog.copy.isEnabled()


def test_program_that_cannot_be_traced_is_reported_why_and_what_to_do(
    dialog, qtbot, built, tmp_path
):
    dialog.program.setEditText(str(built["static"]))
    looked(dialog, qtbot)
    text = dialog.program_text.text()
    assert text.startswith("Cannot be traced: ggml is linked statically")
    cannot = text
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    can = dialog.program_text.text()
    assert new_statements(cannot, can)
    assert new_statement(can, cannot)
    assert "Use a build with ggml as a shared library" in text
    assert not dialog.start.isEnabled()

    closed = tmp_path / "llama-cli"
    closed.write_bytes(built["program"].read_bytes())
    dialog.program.setEditText(str(closed))
    looked(dialog, qtbot)
    assert "not executable. Run `chmod +x " in dialog.program_text.text()

    dialog.program.setEditText(str(tmp_path / "nothing"))
    looked(dialog, qtbot)
    assert dialog.program_text.text().endswith("not found.")
    assert not dialog.start.isEnabled()


def test_program_is_called_looked_at_until_it_is_known(
    dialog, qtbot, built, monkeypatch
):
    messages: list[str] = []
    show = dialog.program_text.setText

    def noted(text):
        messages.append(text)
        show(text)

    monkeypatch.setattr(dialog.program_text, "setText", noted)
    for name, is_looked_at in ((built["program"], True), ("  ", False)):
        messages.clear()
        dialog.program.setEditText(str(name))
        looked(dialog, qtbot)
        assert ("Checking the program…" in messages) == is_looked_at
    dialog.program.setEditText(str(built["program"]))
    end_pause(dialog)
    before = dialog.program_text.text()
    looked(dialog, qtbot)
    assert new_statement(before, dialog.program_text.text())


def test_program_of_another_kind_is_perhaps_traced_and_gets_no_arguments(
    dialog, qtbot, built
):
    dialog.program.setEditText(sys.executable)
    looked(dialog, qtbot)

    text = dialog.program_text.text()
    assert "Not a known llama.cpp tool: enter all its arguments." in text
    assert not dialog.model.isEnabled()
    assert not dialog.prompt.isEnabled()
    assert dialog.spec().command() == [str(Path(sys.executable).absolute())]
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    assert new_statements(text, dialog.program_text.text())


def test_program_that_a_run_must_show_is_called_perhaps(dialog, qtbot, tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    dialog.program.setEditText(str(script))
    looked(dialog, qtbot)

    assert dialog.program_text.text().startswith("May be traceable: a script run by sh")
    assert dialog.start.isEnabled()


def test_fields_that_a_program_does_not_take_are_disabled(dialog, qtbot, built):
    fields = (dialog.model, dialog.prompt, dialog.tokens, dialog.threads)
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    assert all(field.isEnabled() for field in fields)

    dialog.program.setEditText("/bin/ls")
    looked(dialog, qtbot)

    assert not any(field.isEnabled() for field in fields)
    assert dialog.start.isEnabled()
    assert dialog.spec().command() == ["/bin/ls"]


def test_what_is_reported_of_the_model_comes_back_with_a_program_that_takes_one(
    dialog, qtbot, built, model
):
    dialog.model.setEditText(str(model))
    dialog.program.setEditText("/bin/ls")
    looked(dialog, qtbot)
    without = dialog.model_text.text()

    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)

    assert dialog.model.isEnabled()
    assert dialog.model_text.text().startswith("llama · ")
    assert dialog.model_text.text() != without


def test_nothing_moves_when_what_is_found_out_comes(dialog, qtbot, built, model):
    dialog.model.setEditText("")
    dialog.program.setEditText("")
    looked(dialog, qtbot)
    parts = (dialog.model, dialog.prompt, dialog.output, dialog.command, dialog.start)

    def places():
        QApplication.processEvents()
        return [part.mapTo(dialog, QPoint(0, 0)).y() for part in parts]

    before = places()
    for name in ("/bin/ls", str(built["static"]), str(built["program"])):
        dialog.program.setEditText(name)
        end_pause(dialog)
        assert places() == before  # while it is looked at
        looked(dialog, qtbot)
        assert places() == before
    dialog.model.setEditText(str(model))
    looked(dialog, qtbot)
    assert places() == before


def test_machine_is_checked_for_the_output_that_is_named(
    dialog, qtbot, built, model, tmp_path, monkeypatch
):
    dialog.program.setEditText(str(built["program"]))
    dialog.model.setEditText(str(model))
    looked(dialog, qtbot)
    lines = [line.full_text for line in dialog.checks.lines]
    assert len(lines) == 4
    assert all(line.startswith("✓") for line in lines)
    assert dialog.output.text() in lines[3]
    assert dialog.start.isEnabled()

    dialog.output.setText(str(tmp_path))
    looked(dialog, qtbot)

    assert dialog.checks.lines[3].full_text.startswith("✗")
    assert dialog.checks.lines[3].property("level") == "error"
    assert not dialog.start.isEnabled()
    monkeypatch.setenv("GGML_VIZ_MAX_EVENTS", "5")
    dialog.output.setText(str(tmp_path / "a.bin"))
    looked(dialog, qtbot)
    assert dialog.checks.lines[2].full_text.startswith("!")
    assert "GGML_VIZ_MAX_EVENTS" in dialog.checks.lines[2].full_text
    assert dialog.start.isEnabled()


def test_calls_of_cuda_are_recorded_in_the_place_of_ops(dialog, qtbot, built):
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    ops = dialog.command.full_text

    dialog.recorded.setCurrentIndex(1)
    looked(dialog, qtbot)

    assert ops.startswith("ggscope-capture run -o ")
    assert dialog.command.full_text.startswith("ggscope-capture cuda -o ")
    assert dialog.output.text().endswith(".jsonl")
    # It has run on no GPU yet: the answer is never a plain yes.
    assert dialog.program_text.property("level") == "caution"
    assert dialog.spec().records_calls

    dialog.recorded.setCurrentIndex(0)
    looked(dialog, qtbot)
    assert dialog.output.text().endswith(".bin")


@pytest.fixture
def cuda_spec(tmp_path, monkeypatch):
    """Return what records a program whose calls go to a stand-in for the driver."""
    (tmp_path / "cuda").mkdir()
    programs = cuda_programs.build(tmp_path / "cuda")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(programs))
    return LaunchSpec(
        target=Target(str(programs / "loads")), output=str(tmp_path / "calls.jsonl"),
        more="dlsym kinds", records_calls=True,
    )  # fmt: skip


def test_calls_of_cuda_are_shown_when_the_program_has_ended(window, qtbot, cuda_spec):
    window.record(cuda_spec)

    qtbot.waitUntil(lambda: window.document.session.trace is not None, timeout=PATIENCE)
    trace = window.document.session.trace
    assert trace.info.reader_id == "cuda-calls"
    assert trace.op_name(int(trace.spans.op[0])) == "cuInit"
    assert window.document.session.display.color_by == "category"


def test_calls_of_cuda_are_shown_while_the_program_runs(window, qtbot, cuda_spec):
    window.record(replace(cuda_spec, more="dlsym wait"))

    qtbot.waitUntil(lambda: window.document.session.trace is not None, timeout=PATIENCE)
    document = window.document
    assert document.live.is_on
    assert document.session.trace.is_running
    assert document.session.run.is_running
    assert document.session.display.color_by == "category"

    document.session.run.stop()
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)
    trace = document.session.trace
    assert not trace.is_running
    assert [trace.op_name(int(op)) for op in trace.spans.op] == ["cuInit"]


def test_recordings_go_where_people_see_them(settings, tmp_path, monkeypatch):
    settings.data_folder = tmp_path / ".local"

    folder = record_module.recordings_folder(settings)

    assert folder.name == "ggscope"
    assert not any(part.startswith(".") for part in folder.parts)
    settings.change("capture", folder=str(tmp_path))
    assert record_module.recordings_folder(settings) == tmp_path


def test_model_that_is_no_gguf_is_refused_in_words(
    dialog, qtbot, built, tmp_path, model
):
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"something else entirely")
    dialog.program.setEditText(str(built["program"]))
    dialog.model.setEditText(str(wrong))
    looked(dialog, qtbot)

    refused = dialog.model_text.text()
    assert refused.endswith("Choose a GGUF file.")
    assert not dialog.start.isEnabled()
    dialog.model.setEditText(str(model))
    looked(dialog, qtbot)
    assert new_statements(refused, dialog.model_text.text())


def test_machine_without_llama_is_reported_what_brings_one(window, qtbot, monkeypatch):
    monkeypatch.setattr(launcher, "targets", lambda _: ())
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)

    assert "No llama.cpp found." in dialog.program_text.text()
    dialog.close()


def test_programs_that_were_found_are_offered_and_the_first_is_chosen(
    window, qtbot, monkeypatch, built
):
    target = Target(str(built["program"]), origin="PATH")
    monkeypatch.setattr(launcher, "targets", lambda _: (target,))
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)

    assert dialog.program.currentText() == target.path
    assert dialog.program_text.text().startswith("Can be traced: ")
    dialog.close()


def test_lack_of_the_tool_is_reported(window, qtbot, monkeypatch):
    monkeypatch.setattr(launcher.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(launcher.shutil, "which", lambda *_, **__: None)
    window.live_demo()
    assert "ggscope-capture is not installed" in newest_message(window)
    with pytest.raises(LiveError, match="is not installed"):
        launcher.targets(lambda: None)


def test_start_remembers_program_and_model_and_runs(
    dialog, window, qtbot, built, model, traced, tmp_path, settings
):
    traced(graphs=4)
    dialog.program.setEditText(str(built["program"]))
    dialog.model.setEditText(str(model))
    dialog.output.setText(str(tmp_path / "mine.bin"))
    looked(dialog, qtbot)
    dialog.start.click()

    assert settings.capture.programs == (str(built["program"]),)
    assert settings.capture.models == (str(model),)
    assert settings.capture.folder == str(tmp_path)
    document = window.document
    ended(document, qtbot)
    assert (tmp_path / "mine.bin").exists()


# -- while it runs ---------------------------------------------------------


def test_program_is_followed_while_its_text_streams(run, qtbot, traced):
    traced(graphs=60)
    document = run("-p", "hello", "--waits")
    when = time.strftime("%H:%M:%S", time.localtime(document.run.began))
    assert document.title == f"llama-completion · {when}"
    value = 60 * 8 * 2
    qtbot.waitUntil(
        lambda: document.live.metrics.status.records == value, timeout=PATIENCE
    )
    qtbot.waitUntil(lambda: n_spans(document) >= value, timeout=PATIENCE)
    assert document.run.is_running
    console = console_of(document, qtbot)
    assert console.state.text().startswith("● running for ")
    while_it_runs = console.message.full_text
    document.run.stop()
    ended(document, qtbot)
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)

    text = console.text.toPlainText()
    assert "<b>hello</b> \\x1b[31m\N{REPLACEMENT CHARACTER}" in text
    assert "to stderr" in text
    assert console.state.text() == "● exited with code 0"
    assert " · recorded to " in console.message.full_text
    assert new_statement(while_it_runs, console.message.full_text)
    assert Path(document.run.output).stat().st_size == value * 256


def test_stop_asks_the_program_to_end_and_keeps_what_was_recorded(run, qtbot, traced):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    strip_of(document).stop.click()
    assert document.run.state() == "stopping"
    assert not strip_of(document).stop.isEnabled()
    ended(document, qtbot)

    assert document.run.status == 0
    assert Path(document.run.output).stat().st_size == 4 * 8 * 2 * 256


def test_program_that_does_not_end_is_killed(run, qtbot, traced, monkeypatch):
    monkeypatch.setattr(launcher, "_PATIENCE_S", 0.2)
    traced()
    document = run("--stubborn")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    qtbot.waitUntil(lambda: "to stderr" in text_of(document.run), timeout=PATIENCE)
    strip_of(document).stop.click()
    ended(document, qtbot)

    assert console_of(document, qtbot).state.text() == "● terminated by SIGKILL"
    killed, document.run.status = document.run.state(), 9
    assert new_statement(killed, document.run.state())
    assert document.run.has_recording


def test_what_keeps_records_from_coming_is_reported_step_by_step(
    run, qtbot, traced, monkeypatch
):
    monkeypatch.setattr(strip_module, "SILENCE_S", 0.0)
    monkeypatch.setattr(strip_module, "_REFRESH_MS", 50)
    traced(only_in="another")
    document = run("--waits")
    page = document.waiting_page
    assert page.head.text() == "Waiting for llama-completion to compute"
    assert page.hint.text() == "Ops appear here as soon as the model runs."
    assert "to stderr" in text_of(document.run) or document.run.is_running

    def steps_text():
        return "\n".join(texts_of_widgets(page.steps))

    qtbot.waitUntil(lambda: "The tracer is loaded." in steps_text(), timeout=PATIENCE)
    seen = steps_text()
    assert f"process {psutil.Process(document.run.pid).children()[0].pid}" in seen
    assert "ggml is loaded." in seen
    assert "No graph computed yet" in seen
    assert "✗" not in seen
    assert page.steps.isVisible()
    document.run.stop()
    ended(document, qtbot)
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)
    assert not page.steps.isVisible()
    assert page.head.text() == "Detached before anything came"
    assert "· nothing recorded" in waiting_console(document).message.full_text


def test_page_that_waits_has_no_focus_on_what_ends_the_run(run, window, qtbot, traced):
    traced(only_in="another")
    document = run("--waits")
    page = document.waiting_page
    qtbot.waitUntil(lambda: window.focusWidget() is not None, timeout=PATIENCE)

    focus = window.focusWidget()
    assert focus is waiting_console(document).text
    for key in (Qt.Key.Key_Return, Qt.Key.Key_Space, Qt.Key.Key_Enter):
        qtbot.keyClick(focus, key)
    assert document.run.is_running
    assert window.document is document
    assert page.isVisible()
    document.run.stop()
    ended(document, qtbot)


def test_run_that_is_over_at_once_is_shown_from_its_recording(
    run, window, qtbot, traced, monkeypatch
):
    monkeypatch.setattr(live_module, "LOOK_S", 30)
    monkeypatch.setattr(live_pace, "LOOK_S", 30)
    traced()
    run("-p", "short")
    qtbot.waitUntil(lambda: window.document.live is None, timeout=PATIENCE)
    document = window.document
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)

    assert window.n_documents == 1
    assert document.path.name == "run.bin"
    console = console_of(document, qtbot)
    assert "<b>short</b>" in console.text.toPlainText()
    assert not console.open.isVisible()


def test_failure_of_the_program_is_reported(run, qtbot, traced, monkeypatch):
    traced()
    document = run("--fails", "--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    qtbot.waitUntil(lambda: "to stderr" in text_of(document.run), timeout=PATIENCE)
    psutil.Process(document.run.pid).children()[0].terminate()
    ended(document, qtbot)
    assert console_of(document, qtbot).state.text() == "● exited with code 3"
    assert document.run.has_failed
    assert newest_message(document) == "llama-completion exited with code 3."
    document.workspace.drawer.show_tab("statistics")
    press(document, "Console")
    assert document.workspace.drawer.tab == "console"


def test_text_that_never_ends_is_bounded(run, qtbot, traced, monkeypatch):
    monkeypatch.setattr(run_module, "MAX_TEXT", 200)
    traced(graphs=2)
    document = run("-p", "x" * 150, "-p", "y" * 150, "--waits")
    qtbot.waitUntil(lambda: "to stderr" in text_of(document.run), timeout=PATIENCE)
    document.run.stop()
    ended(document, qtbot)
    output_chunks = document.run.output_chunks()
    assert sum(len(text) for _, text in output_chunks[1:]) <= 200


def test_a_stream_that_nobody_took_is_cut(monkeypatch):
    monkeypatch.setattr(launcher, "_BEHIND", 100)
    monkeypatch.setattr(launcher, "_PIECE", 10)
    texts = "print('a' * 200 + 'b' * 9)"
    monkeypatch.setattr(launcher, "tool", lambda: [sys.executable, "-c", texts])
    running = launcher.Running([])
    while running.status() is None:
        time.sleep(0.01)
    ((is_error, text),) = running.read_output()
    assert not is_error
    assert text == "\n… 200 B left out …\nbbbbbbbbb\n"
    running.detach()


def test_closing_the_tab_ends_the_program(run, window, qtbot, traced, tmp_path):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    process = psutil.Process(document.run.pid)
    window.close_document(document)
    qtbot.waitUntil(lambda: not process.is_running(), timeout=PATIENCE)
    assert (tmp_path / "out" / "run.bin").exists()


# -- the recording ---------------------------------------------------------


def test_recording_is_opened_and_saved_elsewhere(
    run, window, qtbot, traced, tmp_path, monkeypatch
):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    document.run.stop()
    ended(document, qtbot)
    target = tmp_path / "kept"
    titles = titles_of(document.session, monkeypatch)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: ("", ""))
    strip_of(document).save.click()
    refused = "\n".join(titles)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    strip_of(document).save.click()
    qtbot.waitUntil(lambda: (tmp_path / "kept.json").exists(), timeout=PATIENCE)
    assert new_statement("\n".join(titles), refused)
    saved = (tmp_path / "kept.bin").read_bytes()
    assert saved == Path(document.run.output).read_bytes()
    both = {str(tmp_path / "kept.bin"), document.run.output}
    qtbot.waitUntil(lambda: set(window.settings.files.recent) == both, timeout=PATIENCE)
    console_of(document, qtbot).open.click()
    assert window.document is not document
    assert window.document.path == Path(document.run.output)
    qtbot.waitUntil(lambda: n_spans(window.document) > 0, timeout=PATIENCE)


def test_recording_is_saved_while_the_program_runs(
    run, window, qtbot, traced, tmp_path, monkeypatch
):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: document.has_recording, timeout=PATIENCE)
    target = tmp_path / "so-far.bin"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    qtbot.waitUntil(strip_of(document).save.isEnabled, timeout=PATIENCE)
    strip_of(document).save.click()
    qtbot.waitUntil(lambda: "Saved as" in newest_message(document), timeout=PATIENCE)

    assert document.run.is_running
    assert newest_message(document).startswith(f"Saved as {target}: ")
    assert newest_message(document).endswith(" ops, none lost.")
    press(document, "Open")
    assert window.document.path == target
    assert (tmp_path / "so-far.json").exists()
    document.run.stop()
    ended(document, qtbot)


def test_text_stays_at_its_end_whatever_the_size_but_where_a_person_scrolled(
    run, window, qtbot, traced
):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    pane = console_of(document, qtbot)
    bar = pane.text.verticalScrollBar()
    text = "many words that break into lines " * 9
    for n in range(200):
        document.run.output_received.emit(n % 2 == 0, f"{n} {text}\n")
    window.resize(900, 600)
    document.run.output_received.emit(False, "after that\n")
    QApplication.processEvents()
    document.run.output_received.emit(False, "after that, too\n")
    qtbot.waitUntil(lambda: bar.maximum() > 150)
    at_end = bar.value(), bar.maximum()
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    seen = bar.value()
    document.run.output_received.emit(False, "more\n" * 20)

    assert at_end[0] == at_end[1]
    assert bar.value() == seen < at_end[0]
    bar.triggerAction(bar.SliderAction.SliderToMaximum)
    document.run.output_received.emit(False, "more\n" * 20)
    assert bar.value() == bar.maximum()
    document.run.stop()
    ended(document, qtbot)


def test_panes_keep_their_height_when_the_program_ends(run, window, qtbot, traced):
    traced()
    window.resize(1600, 1000)
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=PATIENCE)
    workspace = document.workspace
    parts = (*workspace.cells, workspace.drawer, workspace.details, workspace.overview)

    def heights():
        QApplication.processEvents()
        return [part.height() for part in parts]

    # Details shows what the program does now; what limits it stands beside the tabs.
    line = workspace.summary_bar
    qtbot.waitUntil(lambda: line.isVisible() and bool(line.text()), timeout=PATIENCE)
    while_it_runs = heights()
    document.run.stop()
    ended(document, qtbot)
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)

    assert heights() == while_it_runs
    assert not line.isVisible()  # Details shows the summary
    assert pane(document, "table").grid.viewport().height() > 80  # three rows
    assert pane(document, "timeline").height() > 150
    workspace.show_drawer("statistics")
    assert heights() == while_it_runs


def test_console_is_a_tab_of_tabs_that_started_a_program_alone(
    run, window, qtbot, traced
):
    other = window.open_path(ROOT / "resources" / "samples" / "llama-demo.ggmlviz")
    qtbot.waitUntil(lambda: n_spans(other) > 0, timeout=PATIENCE)
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    drawer = document.workspace.drawer
    assert drawer.is_open
    assert drawer.tab == "console"
    assert window.actions_["show.console"].isEnabled()
    window.step_tab(1)
    assert window.document is other
    assert not window.actions_["show.console"].isEnabled()
    assert not other.workspace.drawer.is_open
    assert other.workspace.drawer.tab == "statistics"
    bar = other.workspace.drawer.findChild(QTabBar, "drawerTabs")
    shown = [bar.tabText(i) for i in range(bar.count()) if bar.isTabVisible(i)]
    assert "Console" not in shown
    window.step_tab(1)
    assert window.document is document
    assert drawer.tab == "console"
    drawer.show_tab("experts")
    assert window.settings.layout.bottom_tab == "experts"
    document.run.stop()
    ended(document, qtbot)


def test_output_is_read_while_the_program_is_waited_for_and_after(run, qtbot, traced):
    traced()
    document = run("-p", "early", "--waits")
    qtbot.waitUntil(lambda: "early" in text_of(document.run), timeout=PATIENCE)
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)

    assert "<b>early</b>" in console_of(document, qtbot).text.toPlainText()
    document.run.stop()
    ended(document, qtbot)


# -- again, and the end of the tab -----------------------------------------


def test_program_is_run_again_with_what_was_asked_for(
    window, qtbot, traced, built, model, tmp_path
):
    traced()
    spec = LaunchSpec(
        target=Target(str(built["program"])),
        output=str(tmp_path / "out" / "run.bin"),
        model=str(model),
        prompt="hello",
        tokens=7,
        threads=2,
        more="-p x",
    )
    window.record(spec)
    document = window.document
    ended(document, qtbot)
    qtbot.waitUntil(lambda: n_spans(window.document) > 0, timeout=PATIENCE)
    console_of(window.document, qtbot).again.click()

    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)
    again = dialog.spec()
    assert (again.target.path, again.model) == (str(built["program"]), str(model))
    assert (again.prompt, again.tokens, again.threads) == ("hello", 7, 2)
    assert again.more == "-p x"
    assert again.output != spec.output
    dialog.close()


@pytest.mark.parametrize("libraries", ["", "/some/bins"])
def test_demo_is_run_again_with_the_program_and_model_that_it_found(
    tmp_path, libraries
):
    output = tmp_path / "moe.bin"
    command = ["/opt/llama-completion"]
    if libraries:
        command = [sys.executable, "-m", "ggscope_capture.driver", "--libs", libraries]
    command += ["-m", "/d/moe.gguf", "-p", "once upon", "-n", "480", "-t", "2"]
    output.with_suffix(".json").write_text(json.dumps({"command": command}))

    class Silent:
        pid = 1

        def status(self):
            return 0

    demo = run_module.Run("live demo", Silent(), str(output), "")
    spec = demo.spec_again()

    assert spec.target.path == (libraries or "/opt/llama-completion")
    assert (spec.model, spec.prompt) == ("/d/moe.gguf", "once upon")
    assert (spec.tokens, spec.threads) == (480, 2)
    output.with_suffix(".json").write_text("{}")
    assert demo.spec_again() is None


def test_run_again_of_the_demo_offers_what_it_ran(
    window, qtbot, monkeypatch, answer, built, model, tmp_path
):
    answer("Start demo")
    monkeypatch.setattr(run_module.tempfile, "gettempdir", lambda: str(tmp_path))
    text = (
        "import json, pathlib, sys; folder = pathlib.Path(sys.argv[2]); "
        "folder.mkdir(parents=True, exist_ok=True); "
        f"command = [{str(built['program'])!r}, '-m', {str(model)!r}, "
        "'-p', 'once upon', '-n', '480', '-t', '2']; "
        "(folder / 'moe.json').write_text(json.dumps({'command': command}))"
    )
    with monkeypatch.context() as during:
        during.setattr(launcher, "tool", lambda: [sys.executable, "-c", text])
        window.actions_["help.demo"].trigger()
        document = window.document
        ended(document, qtbot)
    QTest.mouseClick(waiting_console(document).again, Qt.MouseButton.LeftButton)

    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)
    again = dialog.spec()
    assert (again.target.path, again.model) == (str(built["program"]), str(model))
    assert (again.prompt, again.tokens, again.threads) == ("once upon", 480, 2)
    assert dialog.start.isEnabled()
    dialog.close()


def test_two_runs_of_a_program_are_distinguished_by_what_differs(
    window, qtbot, traced, built, tmp_path
):
    traced()
    for threads in (1, 2):
        window.record(
            LaunchSpec(
                target=Target(
                    str(built["program"]),
                    command=(str(built["program"]), "-t", "{threads}", "--waits"),
                ),
                output=str(tmp_path / "out" / f"{threads}.bin"),
                threads=threads,
            )
        )
    titles = [document.title for document in window.documents]
    assert [title.partition(" · ")[0] for title in titles] == [
        "llama-completion -t 1",
        "llama-completion -t 2",
    ]
    for document in window.documents:
        document.run.stop()
        ended(document, qtbot)


def test_two_runs_of_one_command_have_titles_of_their_own(run, window, qtbot, traced):
    traced()
    for _ in range(2):
        run("--waits")
    bar = tab_row(window).bar

    assert len({bar.tabText(i) for i in range(bar.count())}) == 2
    for document in window.documents:
        document.run.stop()
        ended(document, qtbot)


@pytest.mark.parametrize("way", ["tab", "command", "page", "quit"])
def test_closing_a_tab_asks_about_a_program_that_runs(
    run, window, qtbot, traced, answer, way
):
    traced(only_in="another" if way == "page" else "llama-completion")
    document = run("--waits")
    if way != "page":
        qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    process = psutil.Process(document.run.pid)

    def close():
        if way == "tab":
            tab_row(window).close_requested.emit(0)
        elif way == "page":
            document.waiting_page.close_button.click()
        else:
            window.actions_["file.quit" if way == "quit" else "file.close"].trigger()

    questions = answer("Cancel")
    close()
    assert process.is_running()
    assert window.document is document
    assert questions[0][1] == "Keep running"  # Enter ends nothing
    answer("Stop program")
    close()
    qtbot.waitUntil(lambda: not process.is_running(), timeout=PATIENCE)
    assert window.document is None


def test_program_that_is_let_run_is_recorded_to_its_end(
    run, window, qtbot, traced, answer, tmp_path
):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    tool = psutil.Process(document.run.pid)
    (program,) = tool.children()
    answer("Keep running")
    window.actions_["file.close"].trigger()
    assert window.document is None
    QTest.qWait(300)
    assert program.is_running()

    program.terminate()

    output = tmp_path / "out" / "run.bin"
    qtbot.waitUntil(output.exists, timeout=PATIENCE)
    assert output.stat().st_size == 4 * 8 * 2 * 256
    qtbot.waitUntil(lambda: is_over(tool), timeout=PATIENCE)


def is_over(process):
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def answer(monkeypatch):
    """Return a function that presses a button of the next question."""
    questions = []

    def press(name):
        def look():
            box = QApplication.activeModalWidget()
            if not isinstance(box, QMessageBox):
                QTimer.singleShot(20, look)
                return
            buttons = {each.text(): each for each in box.buttons()}
            questions.append((box.text(), box.defaultButton().text(), tuple(buttons)))
            buttons[name].click()

        QTimer.singleShot(20, look)
        return questions

    return press


def test_demo_that_is_cancelled_starts_nothing(window, answer):
    questions = answer("Cancel")
    window.actions_["help.demo"].trigger()

    assert [(default, set(names)) for _, default, names in questions] == [
        ("Start demo", {"Start demo", "Cancel"})
    ]
    assert window.document is None


def test_demo_is_asked_about_and_started(window, qtbot, monkeypatch, answer):
    questions = answer("Start demo")
    texts = "import sys; print('told:', *sys.argv[1:])"
    monkeypatch.setattr(launcher, "tool", lambda: [sys.executable, "-c", texts])
    window.actions_["help.demo"].trigger()
    document = window.document
    ended(document, qtbot)

    assert "small model with random weights" in questions[0][0]
    text = text_of(document.run)
    assert text.startswith("told: demo ")
    assert "--model moe" in text
    assert record_module.recordings_folder(window.settings).is_absolute()
    assert os.path.basename(document.run.output) == "moe.bin"
