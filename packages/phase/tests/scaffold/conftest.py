"""Servers on loopback: one that answers like a language model, one that speaks https."""

import contextlib
import datetime
import ipaddress
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


class QuietServer(HTTPServer):
    """Says nothing about clients that refuse its certificate."""

    def handle_error(self, request, client_address):
        pass


class Server:
    """A server in a thread whose answer the test sets.

    Attributes:
        requests: what was received, as (path, headers, body).
        status, headers, body: of the answer.
        delay_s: wait before the body.
    """

    def __init__(self, context=None):
        self.requests = []
        self.status, self.headers, self.body, self.delay_s = 200, {}, b"", 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self):
                length = int(self.headers.get("Content-Length", 0))
                outer.requests.append((self.path, dict(self.headers), self.rfile.read(length)))
                outer.released.wait(outer.delay_s)
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                # Some tests want a client that gives up.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.wfile.write(outer.body)

            def do_GET(self):
                self._answer()

            def do_POST(self):
                self._answer()

            def log_message(self, *arguments):
                pass

        self.released = threading.Event()
        self._server = QuietServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer(self, content):
        """Answer like the chat interface, with this text."""
        self.body = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()

    def close(self):
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def chat_server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Paths of a certificate for 127.0.0.1 and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def https_server(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = Server(context)
    yield server
    server.close()


@pytest.fixture
def trust(certificate):
    """A client context that trusts the server of the tests."""
    return ssl.create_default_context(cafile=certificate[0])
