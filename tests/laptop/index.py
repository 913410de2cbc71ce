"""A package index on 127.0.0.1 that has one wheel and gives parts of it, or does not."""

from __future__ import annotations

import hashlib
import os
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

from laptop.conftest import INFO

PARTS, WHOLE, BROKEN = "parts", "whole", "broken"


class Index(ThreadingHTTPServer):
    """Serve ``wheel``; ``sent`` holds the bytes of each answer with a piece of it."""

    def __init__(self, wheel: Path, gives: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.wheel, self.gives = wheel, gives
        self.content = wheel.read_bytes()
        with ZipFile(wheel) as files:
            self.metadata = files.read(f"{INFO}/METADATA")
        self.sent: list[int] = []
        Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def settings(self) -> dict[str, str]:
        """Return an environment in which pip knows this index alone."""
        mine = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        mine |= {"PIP_INDEX_URL": f"{self.address}/simple", "PIP_CONFIG_FILE": os.devnull}
        return mine | {"PIP_NO_CACHE_DIR": "1", "no_proxy": "127.0.0.1"}


class Answer(BaseHTTPRequestHandler):
    server: Index
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each small answer waits 40 ms

    def do_HEAD(self) -> None:
        self.answer(200, self.server.content, b"")

    def do_GET(self) -> None:
        if self.path == "/simple/triton/":
            name = self.server.wheel.name
            page = f'<a href="/{name}#sha256={digest(self.server.content)}" '
            page += f'data-core-metadata="sha256={digest(self.server.metadata)}">{name}</a>'
            self.answer(200, page.encode())
        elif self.path.endswith(".metadata"):
            self.answer(200, self.server.metadata)
        elif self.path == f"/{self.server.wheel.name}":
            self.piece()
        else:
            self.answer(404, b"")

    def piece(self) -> None:
        """Answer with the wheel, or with the part that is asked for."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if self.server.gives == WHOLE or not asked:
            self.answer(200, self.server.content)
            self.server.sent.append(len(self.server.content))
            return
        first, last = int(asked[1]), int(asked[2])
        part = self.server.content[first : last + 1]
        if self.server.gives == BROKEN and len(self.server.sent) > 2:
            part = part[::-1]
        self.answer(206, part, range=f"bytes {first}-{last}/{len(self.server.content)}")
        self.server.sent.append(len(part))

    def answer(self, status: int, content: bytes, body: bytes | None = None, range="") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if b"<a " in content[:3] else "binary/any")
        self.send_header("Content-Length", str(len(content)))
        if range:
            self.send_header("Content-Range", range)
        self.end_headers()
        self.wfile.write(content if body is None else body)

    def log_message(self, *_: object) -> None:
        pass


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
