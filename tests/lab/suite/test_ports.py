"""Published ports: TCP of the host into a sandbox that has no network card."""
import hashlib
import json
import os
import random
import signal
import socket

from harness import equal, expect, has, mvm, ok, sandbox, sandbox_json, start

SERVER = """
import socketserver, hashlib, sys
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        # Everything until the client's end; then what it was, and a piece of our own after it.
        digest = hashlib.sha256()
        while piece := self.request.recv(65536):
            digest.update(piece)
        self.request.sendall(digest.hexdigest().encode() + b"x" * 300000)
socketserver.ThreadingTCPServer.allow_reuse_address = True
server = socketserver.ThreadingTCPServer(("127.0.0.1", 8000), Handler)
print("listening", flush=True)
server.serve_forever()
"""


def dial(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.settimeout(60)
    return connection


def digest_by(port, content):
    with dial(port) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    equal(answer[64:], b"x" * 300000, "what follows the digest")
    return answer[:64].decode()


def serve(name):
    server = start("exec", name, "--", "python3", "-c", SERVER)
    equal(server.stdout.readline(), b"listening\n")
    return server


def test_published_port_leads_into_a_sandbox_without_a_card():
    """Bytes are unchanged and half-closes travel, over a restart of the daemon and of the sandbox; a guest that does not
    listen is a reset; a port in use is one clear error."""
    content = random.Random(1).randbytes(3 << 20)
    wanted = hashlib.sha256(content).hexdigest()
    with sandbox("published", "--no-network", "-p", "0:8000", "-p", "0:8001") as name:
        first, second = sandbox_json(name)["ports"]
        equal((first["address"], first["guest"]), ("127.0.0.1", 8000))
        has(ok("ps").out, f"127.0.0.1:{first['host']}->8000")
        server = serve(name)
        equal(digest_by(first["host"], content), wanted)
        with dial(second["host"]) as nobody:
            try:
                equal(nobody.recv(1), None, "nobody listens there")
            except ConnectionResetError:
                pass

        busy = socket.create_server(("127.0.0.1", 0))
        refused = mvm("port", name, f"{busy.getsockname()[1]}:8000")
        equal(refused.code, 125)
        has(refused.err, "is in use by another program of this host")
        equal(len(refused.err.splitlines()), 1, refused.err)

        # A connection that is open when the daemon dies, and one made while there is none.
        with dial(first["host"]) as open_one:
            open_one.sendall(content[:1000])
            os.kill(json.loads(ok("daemon", "status", "--json").out)["pid"], signal.SIGKILL)
            equal(digest_by(first["host"], content), wanted)
            open_one.sendall(content[1000:])
            open_one.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := open_one.recv(65536):
                answer += piece
            equal(answer[:64].decode(), wanted)
        equal(sandbox_json(name)["ports"], [first, second])

        added = json.loads(ok("port", name, "0:8000", "--json").out)
        equal(digest_by(added[0]["host"], content), wanted)
        ok("port", name, "--remove", str(added[0]["host"]))
        try:
            dial(added[0]["host"])
            expect(False, "the port is still open")
        except ConnectionRefusedError:
            pass
        server.terminate()
        ok("down", name)
        ok("up", name)
        server = serve(name)
        equal(digest_by(first["host"], content), wanted)
        server.terminate()
