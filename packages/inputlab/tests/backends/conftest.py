"""A server that answers with whatever bytes a test wants, and counts how often it is asked."""

import socket
import threading
from contextlib import contextmanager

import pytest


class RawServer:
    """Sends fixed bytes to every request and closes."""

    def __init__(self, answer, pause):
        self.answer = answer
        self.pause = pause
        self.requests = []
        self.stop = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                if self.stop.is_set():
                    return
                self.requests.append(self.read(connection))
                try:
                    for part in self.answer:
                        connection.sendall(part)
                        if self.stop.wait(self.pause):
                            break
                except OSError:
                    continue  # the client has heard enough

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")
        )
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body


def http(body, *, status="200 OK", headers=()):
    """An HTTP answer as bytes."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.fixture
def raw_server():
    @contextmanager
    def serve(*answer, pause=0.0):
        server = RawServer(answer, pause)
        server.thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            socket.create_connection(server.listener.getsockname()).close()
            server.thread.join()
            server.listener.close()

    return serve


@pytest.fixture(name="http")
def http_answer():
    return http
