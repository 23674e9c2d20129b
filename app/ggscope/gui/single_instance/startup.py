"""Startup notification: raise the running window with a later process's token.

A launcher passes each process a token in the environment, shows a busy cursor, and
lets the window that presents the token raise itself. Qt does that for a window of the
same process. Where the files go to a running instance, that window presents the token:
under Wayland Qt reads it from the environment; under X11 Qt has no call for it, and
`finish_x11` sends the messages.
"""

import ctypes
import logging
import os
import re
import struct

logger = logging.getLogger(__name__)

_WAYLAND, _X11 = "XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID"
_MAX_TOKEN = 256
_CLIENT_MESSAGE = 33
_PROPERTY_CHANGE = 1 << 22
_SUBSTRUCTURE = 1 << 19 | 1 << 20
_CHUNK = 20
"""Payload bytes of a client message."""
_TIME = re.compile(r"_TIME(\d{1,10})$")


def given_token() -> str:
    """Return the startup token of this process; "" = none, or an invalid one."""
    order = (_WAYLAND, _X11) if os.environ.get("WAYLAND_DISPLAY") else (_X11, _WAYLAND)
    tokens = (os.environ.get(name, "") for name in order)
    return next((token for token in tokens if token and is_token(token)), "")


def is_token(text: str) -> bool:
    """Return whether `text` is a valid token or empty."""
    return len(text) <= _MAX_TOKEN and text.isascii() and text.isprintable()


def set_wayland_token(token: str) -> None:
    """Set the token that Qt presents when a window asks to be activated."""
    os.environ[_WAYLAND] = token


def forget_tokens() -> None:
    """Remove the tokens from the environment that child processes inherit."""
    for name in (_WAYLAND, _X11):
        os.environ.pop(name, None)


def finish_x11(token: str, window_id: int) -> None:
    """Complete the startup sequence on X11, and activate the window by its timestamp.

    Does nothing where the display cannot be reached; never raises.

    Notes
    -----
    It sends "remove" of the Startup Notification Protocol, and _NET_ACTIVE_WINDOW with
    the time of the click, which window managers with focus-stealing prevention compare
    with the last key press. It opens a connection to the display, because Python
    cannot reach that of Qt in all versions.
    """
    try:
        xcb = _library()
    except (OSError, AttributeError) as error:
        logger.info("no startup notification: %s", error)
        return
    connection = xcb.xcb_connect(None, None)
    try:
        if xcb.xcb_connection_has_error(connection):
            return
        screens = xcb.xcb_setup_roots_iterator(xcb.xcb_get_setup(connection))
        root = screens.screen.contents.value
        quoted = re.sub(r'(["\\])', r"\\\1", token)
        text = f'remove: ID="{quoted}"'.encode("ascii") + b"\0"
        message_type = "_NET_STARTUP_INFO_BEGIN"
        for start in range(0, len(text), _CHUNK):
            data = text[start : start + _CHUNK]
            _send(
                xcb,
                connection,
                root,
                _PROPERTY_CHANGE,
                (message_type, 8, window_id, data),
            )
            message_type = "_NET_STARTUP_INFO"
        clicked = _TIME.search(token)
        if clicked is not None:
            data = struct.pack("=5I", 1, int(clicked[1]) & 0xFFFFFFFF, 0, 0, 0)
            message = ("_NET_ACTIVE_WINDOW", 32, window_id, data)
            _send(xcb, connection, root, _SUBSTRUCTURE, message)
        xcb.xcb_flush(connection)
    finally:
        xcb.xcb_disconnect(connection)


class _Screens(ctypes.Structure):
    """xcb_screen_iterator_t; a screen begins with the id of its root window."""

    _fields_ = (
        ("screen", ctypes.POINTER(ctypes.c_uint32)),
        ("rem", ctypes.c_int),
        ("index", ctypes.c_int),
    )


def _library() -> ctypes.CDLL:
    xcb, pointer = ctypes.CDLL("libxcb.so.1"), ctypes.c_void_p
    byte, word, long = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32
    functions = {
        "xcb_connect": (pointer, ctypes.c_char_p, ctypes.c_void_p),
        "xcb_connection_has_error": (ctypes.c_int, pointer),
        "xcb_get_setup": (ctypes.c_void_p, pointer),
        "xcb_setup_roots_iterator": (_Screens, ctypes.c_void_p),
        "xcb_intern_atom": (ctypes.c_uint, pointer, byte, word, ctypes.c_char_p),
        "xcb_intern_atom_reply": (pointer, pointer, ctypes.c_uint, pointer),
        "xcb_send_event": (ctypes.c_uint, pointer, byte, long, long, ctypes.c_char_p),
        "xcb_flush": (ctypes.c_int, pointer),
        "xcb_disconnect": (None, pointer),
    }  # fmt: skip
    for name, (result, *arguments) in functions.items():
        function = getattr(xcb, name)
        function.restype, function.argtypes = result, arguments
    return xcb


def _send(
    xcb: ctypes.CDLL,
    connection: int,
    root: int,
    mask: int,
    message: tuple[str, int, int, bytes],
) -> None:
    message_type, n_bits, window, data = message
    name = message_type.encode("ascii")
    cookie = xcb.xcb_intern_atom(connection, 0, len(name), name)
    reply = xcb.xcb_intern_atom_reply(connection, cookie, None)
    if not reply:
        return
    # xcb_intern_atom_reply_t: eight bytes of head, then the atom.
    atom = struct.unpack_from("=I", ctypes.string_at(reply, 12), 8)[0]
    free = ctypes.CDLL(None).free
    free.argtypes = (ctypes.c_void_p,)
    free(reply)
    head = struct.pack("=BBHII", _CLIENT_MESSAGE, n_bits, 0, window, atom)
    xcb.xcb_send_event(connection, 0, root, mask, head + data.ljust(_CHUNK, b"\0"))
