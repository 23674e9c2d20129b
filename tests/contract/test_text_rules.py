"""Text from traces is data: no file shows, prints or writes it past `ggscope.sanitize`.

A widget that is made elsewhere, a tooltip that is set directly, an HTML escape of its
own: each is a place where a name of a trace could become rich text. What is allowed
stands below, with its reason.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support import ROOT

APP = ROOT / "app" / "ggscope"
PLAIN = "views/base/safe_text.py"
TEXT = "sanitize.py"
OUTPUT = "cli/output.py"

RICH_CLASSES = {
    "QErrorMessage", "QGraphicsTextItem", "QInputDialog", "QLabel", "QMessageBox",
    "QProgressDialog", "QStaticText", "QTextBrowser", "QTextDocument",
    "QTextDocumentFragment", "QTextEdit", "QWhatsThis", "QSystemTrayIcon",
    "QSplashScreen", "QWizardPage",
}  # fmt: skip
"""What shows rich text where a text looks so; QPlainTextEdit does not."""
RICH_METHODS = {
    "appendHtml", "insertHtml", "setDetailedText", "setHtml", "setInformativeText",
    "setMarkdown", "setStatusTip", "setTabToolTip", "setTabWhatsThis", "setTextFormat",
    "setToolTip", "setWhatsThis", "setWindowTitle", "showText",
}  # fmt: skip
ROLES = {"ToolTipRole", "StatusTipRole", "WhatsThisRole"}
ALLOWED = {
    (PLAIN, name): "the one place"
    for name in (
        "QLabel", "QMessageBox", "setTabToolTip", "setTextFormat",
        "setToolTip", "setWindowTitle", "showText",
    )
} | {
    ("gui/dialogs/dialogs.py", "QTextBrowser"): "files of the program",
    ("gui/dialogs/dialogs.py", "setMarkdown"): "files of the program",
    ("gui/dialogs/find.py", "QTextEdit"): "only its marks, which have no words",
}  # fmt: skip
WRITERS = {"html", "csv", "xml"}
"""Modules whose escapes are used by `ggscope.sanitize` alone."""
READERS = {
    ("render/colors.py", "csv"),
    ("readers/common/delimited.py", "csv"),
    ("readers/format_hints.py", "csv"),
    ("readers/bench/forms.py", "csv"),
}
"""What takes such files apart and writes none."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def parsed(*folders: str) -> list[tuple[str, ast.Module]]:
    """Return the place of every source file in some folders, and what is in it."""
    paths = sorted(path for folder in folders for path in (APP / folder).rglob("*.py"))
    assert len(paths) > 10
    return [(path.relative_to(APP).as_posix(), tree_of(path)) for path in paths]


def imported(tree: ast.AST) -> set[str]:
    """Return the packages that a file imports."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    return imported


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """Yield every call with the last part of the name that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield node, function.attr
                # QInputDialog.getText() is a use of the class.
                if isinstance(function.value, ast.Name):
                    yield node, function.value.id
            elif isinstance(function, ast.Name):
                yield node, function.id


def bases(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (b.id for b in node.bases if isinstance(b, ast.Name))


def rich_uses(tree: ast.AST) -> set[str]:
    """Return what a file calls or derives from that shows rich text."""
    used = {name for _, name in calls(tree)} | set(bases(tree))
    return used & (RICH_CLASSES | RICH_METHODS)


def bad_role_answers(tree: ast.AST) -> list[int]:
    """Return the lines where a model answers for a tooltip with any text."""
    return [
        node.lineno
        for choice in ast.walk(tree)
        if isinstance(choice, ast.If) and asks_for_tip(choice.test)
        for node in ast.walk(ast.Module(choice.body, []))
        if isinstance(node, ast.Return) and not is_tip(node.value)
    ]


def asks_for_tip(test: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in ROLES
        for node in ast.walk(test)
    )


def is_tip(value: ast.expr | None) -> bool:
    if value is None or isinstance(value, ast.Constant):
        return True
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "tooltip"
    )


def prints(tree: ast.AST) -> bool:
    """Return whether a file writes to a stream of the process itself."""
    streams = {"__stdout__", "__stderr__", "stdout", "stderr"}
    for call, name in calls(tree):
        if name == "print":
            return True
        if name in ("write", "writelines") and isinstance(call.func, ast.Attribute):
            to = call.func.value
            if isinstance(to, ast.Attribute) and to.attr in {*streams, "buffer"}:
                return True
            if isinstance(to, ast.Call) and getattr(to.func, "id", "") == "_raw":
                return True
    return False


def fills_clipboard(tree: ast.AST) -> bool:
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Call)
        and getattr(call.func.value.func, "attr", "") == "clipboard"
        and name in ("setText", "setMimeData")
        for call, name in calls(tree)
    )


def bad_markup(tree: ast.AST) -> list[int]:
    """Return the lines where rich text is made of what is no literal."""
    return [
        call.lineno
        for call, name in calls(tree)
        if (name == "Html" and (call.args or call.keywords))
        or (
            name == "html"
            and not (
                call.args
                and isinstance(call.args[0], ast.Constant)
                and isinstance(call.args[0].value, str)
            )
        )
    ]


def bad_entries(tree: ast.AST) -> list[int]:
    """Return the lines where a menu gets an entry named by what is no constant."""
    return [
        call.lineno
        for call, name in calls(tree)
        if name == "addAction" and call.args and not is_named_here(call.args[0])
    ]


def is_named_here(argument: ast.expr) -> bool:
    """Return whether an argument is a constant, translated or not, or an action."""
    if isinstance(argument, ast.Call):
        return len(argument.args) == 1 and isinstance(argument.args[0], ast.Constant)
    is_action = isinstance(argument, ast.Name) and argument.id == "action"
    return is_action or isinstance(argument, (ast.Constant, ast.Subscript))


def test_widgets_get_their_words_from_one_place() -> None:
    passing = [
        f"{here}: {name}"
        for here, tree in parsed("views", "gui")
        for name in sorted(rich_uses(tree))
        if (here, name) not in ALLOWED
    ]

    assert not passing, "use `ggscope.views.base.safe_text`"


def test_models_answer_for_tooltips_with_text_that_is_no_markup() -> None:
    pairs = [(here, bad_role_answers(tree)) for here, tree in parsed("views", "gui")]

    assert not [pair for pair in pairs if pair[1]], "return `tooltip(…)`"


def test_rich_text_is_made_of_literals() -> None:
    pairs = [(here, bad_markup(tree)) for here, tree in parsed(".") if here != TEXT]

    assert not [pair for pair in pairs if pair[1]], 'use `html("literal", …)`'


def test_menus_name_entries_in_one_place() -> None:
    pairs = [
        (here, bad_entries(tree))
        for here, tree in parsed("views", "gui")
        if here != PLAIN
    ]

    assert not [pair for pair in pairs if pair[1]], "use `add_action`"


def test_every_exception_is_still_needed() -> None:
    used = {
        (here, name)
        for here, tree in parsed("views", "gui")
        for name in rich_uses(tree)
    }

    assert set(ALLOWED) <= used


def test_texts_are_escaped_in_one_place() -> None:
    pairs = {(here, name) for here, tree in parsed(".") for name in imported(tree)}

    assert {(h, n) for h, n in pairs if n in WRITERS} == READERS


def test_only_one_file_prints() -> None:
    values = {here for here, tree in parsed(".") if prints(tree)}

    assert values == {OUTPUT}, "use `ggscope.cli.output`"


def test_only_one_function_fills_the_clipboard() -> None:
    values = {here for here, tree in parsed(".") if fills_clipboard(tree)}

    assert values == {"views/base/safe_text.py"}, "use `copy_text` or `copy_name`"


def test_nobody_joins_cells_by_hand() -> None:
    pairs = [
        (here, node.lineno)
        for here, tree in parsed("views", "gui", "cli")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "\t" in node.value
    ]

    assert not pairs, "use `tsv_text`"


@pytest.mark.parametrize(
    "line",
    [
        "QLabel(name, self)",
        "class Own(QLabel): pass",
        "widget.setToolTip(name)",
        "QToolTip.showText(at, name, self)",
        "QMessageBox.warning(self, title, name)",
        "browser.setHtml(name)",
    ],
)
def test_rule_finds_what_passes_by(line: str) -> None:
    assert rich_uses(ast.parse(line))


def test_rule_finds_answers_of_models_that_pass_by() -> None:
    code = "if role == Qt.ItemDataRole.ToolTipRole:\n    return self.name(row)"

    assert bad_role_answers(ast.parse(code))
    assert not bad_role_answers(ast.parse(code.replace("self.name", "tooltip")))


@pytest.mark.parametrize("line", ["html(name)", "html(f'<b>{name}</b>')", "Html(name)"])
def test_rule_finds_markup_made_of_names(line: str) -> None:
    assert bad_markup(ast.parse(line))
    assert not bad_markup(ast.parse("html('<b>{}</b>', name)"))


def test_rule_finds_entries_that_pass_by() -> None:
    assert bad_entries(ast.parse("menu.addAction(f'Find {name}')"))
    assert bad_entries(ast.parse("menu.addAction(name)"))
    assert not bad_entries(ast.parse("menu.addAction('Copy')"))


def test_rules_find_what_prints_and_copies_past_them() -> None:
    assert prints(ast.parse("print(name)"))
    assert prints(ast.parse("sys.stderr.write(name)"))
    assert prints(ast.parse("sys.stdout.buffer.write(data)"))
    assert fills_clipboard(ast.parse("QGuiApplication.clipboard().setText(name)"))
