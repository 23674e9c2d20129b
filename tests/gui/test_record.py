"""Running a program from the window: before, while it runs, and at its end."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox

import traced_program
from ggscope.errors import LiveError
from ggscope.gui import program as program_module
from ggscope.gui.dialogs import record as record_module
from ggscope.gui.dialogs.record import RecordDialog
from ggscope.live import launch
from ggscope.live.launch import Check, Target, Wish
from ggscope.session import live as live_module
from ggscope_capture import models
from messages import clear, said
from panes import texts_of_widgets, titles_of
from sentences import assert_sides, is_said

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
    def call(**wanted):
        traced_program.set_up(monkeypatch, built, rings, **wanted)

    return call


@pytest.fixture
def dialog(window, qtbot):
    window.actions_["file.record"].trigger()
    (made,) = window.findChildren(RecordDialog)
    qtbot.waitUntil(lambda: made._tasks.is_idle, timeout=PATIENCE)
    yield made
    for left in window.findChildren(RecordDialog):
        left.close()


def test_window_that_closes_ends_what_its_dialog_looks_for(window, qtbot, monkeypatch):
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(launch, "tool", lambda: sleeps)
    before = set(psutil.Process().children())
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    tasks = dialog._tasks
    qtbot.waitUntil(lambda: set(psutil.Process().children()) > before, timeout=PATIENCE)

    window.close()

    assert tasks._is_closed
    qtbot.waitUntil(
        lambda: set(psutil.Process().children()) == before, timeout=PATIENCE
    )


def looked(dialog, qtbot):
    qtbot.waitUntil(
        lambda: not dialog._settle.isActive() and dialog._tasks.is_idle,
        timeout=PATIENCE,
    )


@pytest.fixture
def run(window, built, tmp_path):
    """Return a function that runs the program with arguments."""

    def call(*arguments, path=None, check=None):
        target = Target(str(path or built["program"]))
        output = tmp_path / "out" / "run.bin"
        wish = Wish(target=target, output=str(output), more=shlex.join(arguments))
        window.record(wish, check)
        return window.document

    return call


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
    assert dialog.model_words.text() == "It needs a model in GGUF."
    assert not dialog.start.isEnabled()
    dialog.model.setEditText(str(model))
    dialog.prompt.setText("it's a test")
    dialog.more.setText("--temp 0")
    looked(dialog, qtbot)

    assert dialog.program_words.text().startswith("Can be traced: ")
    words = dialog.model_words.text()
    assert words.startswith("llama · ")
    assert " parameters · F16 · 2 layers · " in words
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


def test_open_quotation_in_the_arguments_is_told(dialog, qtbot, built):
    dialog.program.setEditText(str(built["program"]))
    dialog.more.setText("'open")
    looked(dialog, qtbot)

    assert "quotation in the further arguments has no end" in dialog.command.full_text
    assert not dialog.start.isEnabled()
    assert not dialog.copy.isEnabled()


def test_program_that_cannot_be_traced_is_told_why_and_what_to_do(
    dialog, qtbot, built, tmp_path
):
    dialog.program.setEditText(str(built["static"]))
    looked(dialog, qtbot)
    text = dialog.program_words.text()
    assert text.startswith("Cannot be traced: ggml was linked into the program itself")
    cannot = text
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    can = dialog.program_words.text()
    assert_sides("Cannot be traced: {0}. {1}", cannot, can)
    assert_sides("Can be traced: {0}.", can, cannot)
    assert "Use a build whose ggml is a library" in text
    assert not dialog.start.isEnabled()

    closed = tmp_path / "llama-cli"
    closed.write_bytes(built["program"].read_bytes())
    dialog.program.setEditText(str(closed))
    looked(dialog, qtbot)
    assert "you may not execute it. `chmod +x " in dialog.program_words.text()

    dialog.program.setEditText(str(tmp_path / "nothing"))
    looked(dialog, qtbot)
    assert dialog.program_words.text().startswith("There is no program ")
    assert not dialog.start.isEnabled()


def test_program_is_said_to_be_looked_at_until_it_is_known(
    dialog, qtbot, built, monkeypatch
):
    told: list[str] = []
    say = dialog._say

    def noted(where, text, level=""):
        told.append(text)
        say(where, text, level)

    monkeypatch.setattr(dialog, "_say", noted)
    for name, is_looked_at in ((built["program"], True), ("  ", False)):
        told.clear()
        dialog.program.setEditText(str(name))
        looked(dialog, qtbot)
        assert ("Looking at the program…" in told) == is_looked_at
    dialog.program.setEditText(str(built["program"]))
    dialog._look_at_both()
    before = dialog.program_words.text()
    looked(dialog, qtbot)
    assert_sides("Looking at the program…", before, dialog.program_words.text())


def test_program_of_another_kind_is_perhaps_traced_and_gets_no_arguments(
    dialog, qtbot, built
):
    dialog.program.setEditText(sys.executable)
    looked(dialog, qtbot)

    text = dialog.program_words.text()
    assert "It is none of llama.cpp's programs: give all its arguments below." in text
    assert not dialog.model.isEnabled()
    assert not dialog.prompt.isEnabled()
    assert dialog.wish().command() == [str(Path(sys.executable).absolute())]
    dialog.program.setEditText(str(built["program"]))
    looked(dialog, qtbot)
    claim = "It is none of llama.cpp's programs: give all its arguments below."
    assert_sides(claim, text, dialog.program_words.text())


def test_program_that_a_run_must_tell_is_said_to_be_perhaps(dialog, qtbot, tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    dialog.program.setEditText(str(script))
    looked(dialog, qtbot)

    assert dialog.program_words.text().startswith("Perhaps: it is a script of sh")
    assert dialog.start.isEnabled()


def test_model_that_is_no_gguf_is_refused_in_words(
    dialog, qtbot, built, tmp_path, model
):
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"something else entirely")
    dialog.program.setEditText(str(built["program"]))
    dialog.model.setEditText(str(wrong))
    looked(dialog, qtbot)

    refused = dialog.model_words.text()
    assert refused.endswith("Choose a GGUF file.")
    assert not dialog.start.isEnabled()
    dialog.model.setEditText(str(model))
    looked(dialog, qtbot)
    assert_sides("{0} Choose a GGUF file.", refused, dialog.model_words.text())


def test_machine_without_llama_is_told_what_brings_one(window, qtbot, monkeypatch):
    monkeypatch.setattr(launch, "targets", lambda _: ())
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)

    assert "No llama.cpp was found on this machine." in dialog.program_words.text()
    dialog.close()


def test_programs_that_were_found_are_offered_and_the_first_is_chosen(
    window, qtbot, monkeypatch, built
):
    found = Target(str(built["program"]), origin="PATH")
    monkeypatch.setattr(launch, "targets", lambda _: (found,))
    window.actions_["file.record"].trigger()
    (dialog,) = window.findChildren(RecordDialog)
    looked(dialog, qtbot)

    assert dialog.program.currentText() == found.path
    assert dialog.program_words.text().startswith("Can be traced: ")
    dialog.close()


def test_lack_of_the_tool_is_told(window, qtbot, monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(launch.shutil, "which", lambda *_, **__: None)
    window.live_demo()
    assert "ggscope-capture is not installed" in said(window)
    with pytest.raises(LiveError, match="is not installed"):
        launch.targets(lambda: None)


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
    assert document.title == "llama-completion"
    heard = 60 * 8 * 2
    qtbot.waitUntil(
        lambda: document.live.meters.heard.records == heard, timeout=PATIENCE
    )
    qtbot.waitUntil(lambda: n_spans(document) >= heard, timeout=PATIENCE)
    assert document.run.is_running
    assert document.program.state.text().startswith("● running for ")
    while_it_runs = document.program.words.full_text
    document.run.stop()
    ended(document, qtbot)
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)

    text = document.program.text.toPlainText()
    assert "<b>hello</b> \\x1b[31m\N{REPLACEMENT CHARACTER}" in text
    assert "to stderr" in text
    assert document.program.state.text() == "● ended with 0"
    assert " · recorded in " in document.program.words.full_text
    over = document.program.words.full_text
    assert_sides("· is recorded to {0}", while_it_runs, over)
    assert Path(document.run.output).stat().st_size == heard * 256


def test_stop_asks_the_program_to_end_and_keeps_what_was_recorded(run, qtbot, traced):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    document.program.stop.click()
    assert document.run.state() == "stopping"
    ended(document, qtbot)

    assert document.run.status == 0
    assert Path(document.run.output).stat().st_size == 4 * 8 * 2 * 256


def test_program_that_does_not_end_is_killed(run, qtbot, traced, monkeypatch):
    monkeypatch.setattr(launch, "_PATIENCE_S", 0.2)
    traced()
    document = run("--stubborn")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    qtbot.waitUntil(
        lambda: "to stderr" in document.program.text.toPlainText(), timeout=PATIENCE
    )
    document.program.stop.click()
    ended(document, qtbot)

    assert document.program.state.text() == "● ended by signal 9"
    killed, document.run.status = document.run.state(), 9
    assert_sides("ended by signal {0}", killed, document.run.state())
    assert document.run.has_recording


def said_anew(document):
    """Return what a tab says when five seconds have gone by."""
    clear(document)
    document._on_silent()
    return said(document)


def test_silence_is_explained_with_the_next_step(run, qtbot, traced, monkeypatch):
    monkeypatch.setattr(program_module, "_SILENCE_S", 0.0)
    traced(only_in="another")
    target = Target("llama-server")
    check = Check(target, "no-ggml", None, ("why",), "advice")
    document = run("--waits", check=check)
    page = document.waiting_page
    started = "\n".join(texts_of_widgets(page))
    while_it_runs = document.program.words.full_text
    assert page.words.text() == "llama-completion has been started."
    assert page.hint.text() == "Its spans appear here as soon as it computes."
    document.run.name = "llama-server"
    qtbot.waitUntil(lambda: bool(said(document)), timeout=PATIENCE)

    text = said(document)
    assert "Nothing has been recorded yet, and llama-server runs." in text
    assert "It may still be loading its model." in text
    assert "A server computes when it is asked: send a request." in text
    assert "Only the run can tell whether it can be traced." in text
    assert "A program that clears its environment or runs in a sandbox" in text
    silent_claims = (
        "Nothing has been recorded yet, and {0} runs.",
        "It may still be loading its model.",
        "A program that clears its environment or runs in a sandbox keeps the tracer "
        "out; what it says below may tell.",
    )
    of_servers = "A server computes when it is asked: send a request."
    document.run.name = "llama-completion"
    document._on_silent()
    assert_sides(of_servers, text, said(document))
    assert is_said(silent_claims[0], said(document))
    # One record, or a tab that does not follow any more, and nothing is said.
    known, live = document.live.meters, document.live
    live.meters = replace(known, heard=replace(known.heard, records=1))
    one = said_anew(document)
    live.meters = known
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(live), "is_on", False)
        deaf = said_anew(document)
    for claim in (*silent_claims, of_servers):
        assert_sides(claim, text, one + deaf)
    document.run.stop()
    ended(document, qtbot)
    over = document.program.words.full_text
    assert_sides("· nothing was recorded", over, while_it_runs)
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=PATIENCE)
    after = "\n".join(texts_of_widgets(page))
    assert_sides("{0} has been started.", started, after)
    assert_sides("Its spans appear here as soon as it computes.", started, after)


def test_run_that_is_over_at_once_is_shown_from_its_recording(
    run, window, qtbot, traced, monkeypatch
):
    monkeypatch.setattr(live_module, "_LOOK_S", 30)
    traced()
    run("-p", "short")
    qtbot.waitUntil(lambda: window.document.live is None, timeout=PATIENCE)
    document = window.document
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)

    assert window.n_documents == 1
    assert document.path.name == "run.bin"
    assert "<b>short</b>" in document.program.text.toPlainText()
    assert not document.program.open.isVisible()


def test_failure_of_the_program_is_told(run, qtbot, traced, monkeypatch):
    traced()
    document = run("--fails", "--waits")
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=PATIENCE)
    qtbot.waitUntil(
        lambda: "to stderr" in document.program.text.toPlainText(), timeout=PATIENCE
    )
    psutil.Process(document.run.pid).children()[0].terminate()
    ended(document, qtbot)
    assert document.program.state.text() == "● ended with 3"
    text = said(document)
    assert text == "llama-completion ended with 3. What it said is below."
    monkeypatch.setattr(document.run, "all_said", list)
    document._on_run_ended()
    quiet = said(document)
    assert_sides("What it said is below.", text, quiet)
    assert quiet == "llama-completion ended with 3."


def test_text_that_never_ends_is_bounded(run, qtbot, traced, monkeypatch):
    monkeypatch.setattr(program_module, "_MOST_LETTERS", 200)
    traced(graphs=2)
    document = run("-p", "x" * 150, "-p", "y" * 150, "--waits")
    qtbot.waitUntil(
        lambda: "to stderr" in document.program.text.toPlainText(), timeout=PATIENCE
    )
    document.run.stop()
    ended(document, qtbot)
    kept = document.run.all_said()
    assert sum(len(text) for _, text in kept[1:]) <= 200


def test_a_stream_that_nobody_took_is_cut(monkeypatch):
    monkeypatch.setattr(launch, "_BEHIND", 100)
    monkeypatch.setattr(launch, "_PIECE", 10)
    words = "print('a' * 200 + 'b' * 9)"
    monkeypatch.setattr(launch, "tool", lambda: [sys.executable, "-c", words])
    running = launch.Running([])
    running._process.wait()
    ((is_error, text),) = running.said()
    assert not is_error
    assert text == "\n… 200 B left out …\nbbbbbbbbb\n"
    running.let_go()


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
    document.program.save.click()
    refused = "\n".join(titles)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    document.program.save.click()
    qtbot.waitUntil(lambda: (tmp_path / "kept.json").exists(), timeout=PATIENCE)
    assert_sides("Saving the recording", "\n".join(titles), refused)
    saved = (tmp_path / "kept.bin").read_bytes()
    assert saved == Path(document.run.output).read_bytes()
    document.program.open.click()
    assert window.document is not document
    qtbot.waitUntil(lambda: n_spans(window.document) > 0, timeout=PATIENCE)


def test_recording_is_saved_while_the_program_runs(
    run, window, qtbot, traced, tmp_path, monkeypatch
):
    traced()
    document = run("--waits")
    qtbot.waitUntil(lambda: document.has_recording, timeout=PATIENCE)
    target, told = tmp_path / "so-far.bin", []
    document.session.noted.connect(told.append)
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    qtbot.waitUntil(document.program.save.isEnabled, timeout=PATIENCE)
    document.program.save.click()
    qtbot.waitUntil(lambda: bool(told), timeout=PATIENCE)

    assert document.run.is_running
    assert told[0].startswith(f"Saved as {target}: ")
    assert told[0].endswith(" records, none lost.")
    assert (tmp_path / "so-far.json").exists()
    document.run.stop()
    ended(document, qtbot)


def test_text_is_hidden_and_shown(run, qtbot, traced):
    traced()
    document = run("--waits")
    pane = document.program
    qtbot.mouseClick(pane.fold, Qt.MouseButton.LeftButton)
    assert pane.is_folded
    assert not pane.text.isVisible()
    qtbot.mouseClick(pane.fold, Qt.MouseButton.LeftButton)
    assert pane.text.isVisible()
    document.run.stop()
    ended(document, qtbot)


def test_text_stays_at_its_end_whatever_the_size_but_where_a_person_scrolled(
    run, window, qtbot, traced
):
    traced()
    document = run("--waits")
    pane = document.program
    bar = pane.text.verticalScrollBar()
    words = "many words that break into lines " * 9
    for n in range(200):
        pane._on_said(n % 2 == 0, f"{n} {words}\n")
    window.resize(900, 600)
    pane._on_said(False, "after that\n")
    QApplication.processEvents()
    pane._on_said(False, "after that, too\n")
    qtbot.waitUntil(lambda: bar.maximum() > 200)
    at_end = bar.value(), bar.maximum()
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    seen = bar.value()
    pane._on_said(False, "more\n" * 20)

    assert at_end[0] == at_end[1]
    assert bar.value() == seen < at_end[0]
    bar.triggerAction(bar.SliderAction.SliderToMaximum)
    pane._on_said(False, "more\n" * 20)
    assert bar.value() == bar.maximum()
    document.run.stop()
    ended(document, qtbot)


def test_panes_and_text_share_what_a_window_loses(run, window, qtbot, traced):
    traced()
    window.resize(1600, 1000)
    document = run("--waits")
    before = document.program.height()
    window.resize(900, 600)
    qtbot.waitUntil(lambda: window.height() == 600)
    QApplication.processEvents()

    assert document.program.height() < before
    assert document.program.height() < 600 / 5
    document.run.stop()
    ended(document, qtbot)


@pytest.fixture
def answer(monkeypatch):
    """Return a function that presses a button of the next question."""
    asked = []

    def press(name):
        def look():
            box = QApplication.activeModalWidget()
            if not isinstance(box, QMessageBox):
                QTimer.singleShot(20, look)
                return
            buttons = {each.text(): each for each in box.buttons()}
            asked.append((box.text(), box.defaultButton().text(), tuple(buttons)))
            buttons[name].click()

        QTimer.singleShot(20, look)
        return asked

    return press


def test_demo_that_is_cancelled_starts_nothing(window, answer):
    asked = answer("Cancel")
    window.actions_["help.demo"].trigger()

    assert [(default, set(names)) for _, default, names in asked] == [
        ("Start demo", {"Start demo", "Cancel"})
    ]
    assert window.document is None


def test_demo_is_asked_about_and_started(window, qtbot, monkeypatch, answer):
    asked = answer("Start demo")
    words = "import sys; print('told:', *sys.argv[1:])"
    monkeypatch.setattr(launch, "tool", lambda: [sys.executable, "-c", words])
    window.actions_["help.demo"].trigger()
    document = window.document
    ended(document, qtbot)

    assert "small model with random weights" in asked[0][0]
    text = document.program.text.toPlainText()
    assert text.startswith("told: demo ")
    assert "--model moe" in text
    assert record_module.recordings_folder(window.settings).is_absolute()
    assert os.path.basename(document.run.output) == "moe.bin"
