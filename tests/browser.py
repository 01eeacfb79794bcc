"""A real browser, driven by the WebDriver protocol of the W3C."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from clients import DEADLINE, need
from facility import free_ports

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class Browser:
    """One window of Chromium."""

    def __init__(self, port: int, profile: Path, rules: str) -> None:
        self._port = port
        options = {"args": [*OPTIONS, f"--user-data-dir={profile}", f"--host-resolver-rules={rules}"]}
        wish = {"browserName": "chrome", "goog:chromeOptions": options, "timeouts": {"script": 30_000}}
        self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wish}})["sessionId"]

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise AssertionError(f"{path}: {value['error']}: {value['message']}")
        return value

    def go(self, url: str) -> None:
        """Open a page as if its address was typed."""
        self._ask("POST", f"/session/{self._session}/url", {"url": url})

    def text(self) -> str:
        """Read the page as it stands there."""
        return str(self._ask("GET", f"/session/{self._session}/source"))

    def script(self, body: str, *arguments: object) -> Any:
        """Run the body of an asynchronous function in the page; what it returns is the result."""
        wrapped = (
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {body} }})(...arguments).then(done, error => done('failed: ' + error));"
        )
        call = {"script": wrapped, "args": list(arguments)}
        return self._ask("POST", f"/session/{self._session}/execute/async", call)

    def picture(self) -> str:
        """Take a picture of the window: PNG in base64."""
        return str(self._ask("GET", f"/session/{self._session}/screenshot"))

    def quit(self) -> None:
        """Close it."""
        self._ask("DELETE", f"/session/{self._session}")


@contextmanager
def browser(profile: Path, rules: str = "") -> Iterator[Browser]:
    """Open a browser for which `rules` say what names mean."""
    need("chromedriver", "chromium")
    (port,) = free_ports(1)
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert driver.stdout is not None
        for line in driver.stdout:
            if "started successfully" in line:
                break
        # Nobody reads the rest, which is little.
        window = Browser(port, profile, rules)
        try:
            yield window
        finally:
            window.quit()
    finally:
        driver.terminate()
        driver.communicate(timeout=DEADLINE)


@contextmanager
def site(page: str) -> Iterator[int]:
    """Serve one page under every name and path; yields the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE)
