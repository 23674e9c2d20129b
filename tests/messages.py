"""What the window says over a page, for tests."""

from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.messages import Toast

Page = MainWindow | Document


def toast(page: Page, key: str = "") -> Toast:
    """Return the newest message of a tab, or of the window's page in front."""
    shown = [t for t in page.messages.toasts if key in ("", t.message.key)]
    assert shown, "nothing is said"
    return shown[-1]


def newest_message(page: Page, key: str = "") -> str:
    """Return the text of the newest message; "" = nothing is said."""
    shown = [t for t in page.messages.toasts if key in ("", t.message.key)]
    return shown[-1].text.text() if shown else ""


def clear(page: Page) -> None:
    """Close all messages."""
    for shown in page.messages.toasts:
        shown.close_button.click()
