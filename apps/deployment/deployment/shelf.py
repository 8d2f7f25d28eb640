"""A local stand-in for the Flower Hub, which hands signed apps to the SuperLink."""

import base64
import hashlib
import json
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.cli.build import build_fab_from_disk

REVIEWER: Final = "fpk_reviewer"


class Shelf:
    """Serves signed apps on the loopback interface.

    A SuperLink accepts signatures only from a Flower Hub, whose address it reads from
    `FLWR_SUPERGRID_API_URL`; here it is `url`. The reviewer's private key is never written to disk.
    The public key goes to the file `trusted_entities`, in the format that SuperNodes read.
    """

    def __init__(self, trusted_entities: Path) -> None:
        self._key = Ed25519PrivateKey.generate()
        public = self._key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        trusted_entities.write_text(f"{REVIEWER}: {public.decode()}\n", encoding="utf-8")
        answers = self._answers = dict[str, bytes]()

        class Handler(BaseHTTPRequestHandler):
            """Answers a SuperLink's requests for signatures and apps, and nothing else."""

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(answers.get(asked.get("app_id")))

            def do_GET(self) -> None:
                self._answer(answers.get(self.path))

            def _answer(self, content: bytes | None) -> None:
                self.send_response(404 if content is None else 200)
                self.end_headers()
                self.wfile.write(content or b"{}")

            def log_message(self, *_arguments: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, app: Path) -> str:
        """Sign the app in a folder as reviewed, offer it, and return its name for `flwr run`."""
        project = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
        publisher, name = project["tool"]["flwr"]["app"]["publisher"], project["project"]["name"]
        fab, signed_at = build_fab_from_disk(app), int(time.time())
        digest = hashlib.sha256(fab)
        signature = self._key.sign(signed_at.to_bytes(8, "big") + digest.digest())
        verification = {
            "public_key_id": REVIEWER,
            "signature": base64.urlsafe_b64encode(signature).decode(),
            "signed_at": signed_at,
        }
        path = f"/{digest.hexdigest()}"
        found = {"fab_url": self.url + path, "verifications": [verification]}
        self._answers[path] = fab
        self._answers[f"@{publisher}/{name}"] = json.dumps(found).encode()
        return f"@{publisher}/{name}=={project['project']['version']}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
