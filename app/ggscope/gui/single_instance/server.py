"""Single-instance server: receive open requests of later processes and reply."""

import contextlib
import logging
import socket

from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

from ggscope.gui.single_instance.client import (
    MAX_REQUEST_BYTES,
    REPLY_TIMEOUT_S,
    InstanceLock,
    decode,
    reply,
)

logger = logging.getLogger(__name__)

MAX_CLIENTS = 16
"""Simultaneous connections; further ones are closed."""


class InstanceServer(QObject):
    """Listens on the socket of an `InstanceLock`.

    A request is accepted before its files are opened, which takes longer. An invalid
    request is refused with the reason; a client that sends none within
    `REPLY_TIMEOUT_S` is disconnected. A client that disconnects before the reply opens
    a window itself, so its request is dropped.

    Signals
    -------
    request_received(OpenRequest) : an accepted request.
    """

    request_received = Signal(object)

    def __init__(self, lock: InstanceLock, parent: QObject) -> None:
        super().__init__(parent)
        self._lock = lock
        self._clients: set[_Client] = set()
        self._notifier = QSocketNotifier(
            lock.listener.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.setEnabled(False)
        self._notifier.activated.connect(self._on_connection)

    def start(self) -> None:
        """Accept connections, waiting ones first; the window is up."""
        if self._lock.is_held:
            self._lock.mark_ready()
            self._notifier.setEnabled(True)

    def stop(self) -> None:
        """Disconnect all clients and release the lock; idempotent."""
        # Before the descriptor is closed, which another file may get at once.
        self._notifier.setEnabled(False)
        for client in list(self._clients):
            client.close()
        self._lock.release()

    def remove(self, client: "_Client") -> None:
        """Count a disconnected client no more."""
        self._clients.discard(client)

    @property
    def n_clients(self) -> int:
        """Number of open connections."""
        return len(self._clients)

    def _on_connection(self) -> None:
        while self._lock.is_held:
            try:
                connection, _ = self._lock.listener.accept()
            except OSError:  # none waits any more, or it was closed meanwhile
                return
            if len(self._clients) >= MAX_CLIENTS:
                connection.close()
                continue
            self._clients.add(_Client(connection, self))


class _Client(QObject):
    """A connection from a client."""

    def __init__(self, connection: socket.socket, server: InstanceServer) -> None:
        super().__init__(server)
        self._server = server
        self._connection = connection
        self._received = b""
        connection.setblocking(False)
        self._notifier = QSocketNotifier(
            connection.fileno(), QSocketNotifier.Type.Read, self
        )
        self._notifier.activated.connect(self._on_readable)
        self._timeout = QTimer(self)
        self._timeout.setSingleShot(True)
        self._timeout.timeout.connect(self.close)
        self._timeout.start(round(REPLY_TIMEOUT_S * 1000))

    def close(self) -> None:
        """Disconnect."""
        self._timeout.stop()
        self._notifier.setEnabled(False)
        self._connection.close()
        self._server.remove(self)
        self.deleteLater()

    def _on_readable(self) -> None:
        try:
            chunk = self._connection.recv(MAX_REQUEST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._received += chunk
        if not chunk:
            self.close()
        elif b"\n" in self._received or len(self._received) > MAX_REQUEST_BYTES:
            self._handle_request()

    def _handle_request(self) -> None:
        """Reply to the request and disconnect."""
        try:
            request = decode(self._received)
        except ValueError as error:
            logger.info("open request refused: %s", error)
            self._send(reply(is_accepted=False, reason=str(error)))
            self.close()
            return
        is_sent = self._is_connected() and self._send(reply(is_accepted=True))
        self.close()
        if is_sent:
            self._server.request_received.emit(request)

    def _is_connected(self) -> bool:
        """Return whether the client still waits for the reply."""
        try:
            return bool(self._connection.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _send(self, data: bytes) -> bool:
        with contextlib.suppress(OSError):
            return self._connection.send(data) == len(data)
        return False
