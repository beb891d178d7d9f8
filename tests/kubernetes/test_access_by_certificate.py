"""A login by certificate: TLS knows it, and no file keeps it."""

from __future__ import annotations

import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from azure_cloud.certificates import write_certificates
from cloudgan.kubernetes.access import connect_by_certificate
from cloudgan.kubernetes.api import ClusterApi
from cluster.certificates import authority


class Names(BaseHTTPRequestHandler):
    def do_GET(self):
        subject = dict(part[0] for part in self.connection.getpeercert()["subject"])
        content = f'{{"user": "{subject["commonName"]}"}}'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def test_a_cluster_sees_the_certificate_and_no_file_of_it_is_left(tmp_path, monkeypatch):
    files = write_certificates(tmp_path)
    context = files.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files.authority)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Names)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    files_of_logins = tmp_path / "temporary"
    files_of_logins.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files_of_logins))
    pem = [path.read_text() for path in (files.authority, files.certificate, files.key)]
    client = connect_by_certificate(f"https://127.0.0.1:{server.server_port}", *pem)
    assert list(Path(files_of_logins).iterdir()) == []
    assert ClusterApi(client).get("/api/v1/nodes") == {"user": "server"}
    client.close()
    pem[0] = authority(("stranger.example",)).certificate.decode()
    with pytest.raises(Exception, match=r"(?i)certificate"):
        ClusterApi(
            connect_by_certificate(f"https://127.0.0.1:{server.server_port}", *pem),
            patience_seconds=0,
        ).get("/api/v1/nodes")
    server.shutdown()
    server.server_close()
