"""Secrets: the guest has a placeholder, the server has the value, and the value is nowhere that a guest or a file could show it."""
import contextlib
import http.server
import json
import os
import pathlib
import resource
import signal
import ssl
import subprocess
import tempfile
import threading

from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json
from test_network import PUBLIC, certified, internet, python

VALUE = "sk-lab-5ecret-of-nobody-0123456789"

# Posts what the second word says, with the variable's text as a bearer token; prints the status and the answer.
POST = r"""
import os, sys, urllib.request
request = urllib.request.Request(sys.argv[1], data=sys.argv[2].encode(),
                                 headers={"Authorization": "Bearer " + os.environ["API_KEY"]})
try:
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
"""


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the fields and the body that it got, and keeps them."""
    seen = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = str(self.headers) + body.decode()
        Echo.seen.append(text)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def holds(pid, what):
    """Whether any of the memory that the process may read holds the bytes."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if "r" not in mode or "[v" in line:
                continue
            begin, end = (int(word, 16) for word in span.split("-"))
            with contextlib.suppress(OSError, ValueError):
                memory.seek(begin)
                while begin < end:
                    piece = memory.read(min(end - begin, 1 << 24))
                    if not piece:
                        break
                    if what in piece:
                        return True
                    begin += len(piece)
    return False


def has_bytes(path, what):
    """Whether the file holds the bytes; disks are mostly holes, which are stepped over."""
    with open(path, "rb") as file:
        at, kept = 0, b""
        while True:
            try:
                data = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return False
            kept = kept if data == at else b""
            end = os.lseek(file.fileno(), data, os.SEEK_HOLE)
            piece = os.pread(file.fileno(), min(end - data, 1 << 24), data)
            if what in kept + piece:
                return True
            at, kept = data + len(piece), (kept + piece)[-len(what):]


def files_with(what):
    roots = (os.environ["MVM_DATA_DIR"], os.environ["MVM_RUNTIME_DIR"])
    return [str(path) for root in roots for path in pathlib.Path(root).rglob("*")
            if path.is_file() and has_bytes(path, what)]


def test_guest_has_a_placeholder_and_the_server_the_value():
    """A secret goes to its host and to no other, comes back as the placeholder, and leaves no trace on the way."""
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("page.example", folder, Echo):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nallow_hosts = ["page.example", "other.example"]\n'
                       f'resolvers = ["127.0.0.1:{names.port}"]\n'
                       '[secrets]\nAPI_KEY = { from = "stored:LAB_KEY", hosts = ["page.example"] }\n')
        ok("secret", "set", "LAB_KEY", stdin=VALUE.encode() + b"\n")
        equal(mvm("secret", "test", "LAB_KEY").out, f"LAB_KEY has a value of {len(VALUE)} bytes\n")
        with sandbox("keeper", "-f", manifest):
            placeholder = guest("keeper", "echo $API_KEY")
            expect(placeholder.startswith("mvm-secret-"), placeholder)
            answer = python("keeper", POST, "https://page.example/", "about " + placeholder)
            expect(answer.startswith("200 "), answer)
            has(answer, "Authorization: Bearer " + placeholder)
            expect(VALUE not in answer, answer)
            has(Echo.seen[-1], "Authorization: Bearer " + VALUE)
            has(Echo.seen[-1], "about " + placeholder)
            # Without TLS, to another host, and the value itself.
            has(python("keeper", POST, "http://page.example/", ""), "secret_misuse")
            has(python("keeper", POST, "http://other.example/", ""), "secret_misuse")
            has(python("keeper", POST, "https://page.example/", "it is " + VALUE[:10] + VALUE[10:]), "secret_leak")
            kinds = [json.loads(line)["kind"] for line in ok("audit", "show", "--json", "keeper").out.splitlines()]
            for kind in ("secret_used", "secret_inert", "secret_masked", "secret_misused", "secret_leaked"):
                expect(kind in kinds, f"{kind} in {kinds}")
            seen = sandbox_json("keeper")
            expect(VALUE not in ok("inspect", "keeper").out, "inspect shows it")
            equal(seen["secrets"][0]["from"], "stored:LAB_KEY")
            # The sandbox's process has it. The monitor, with all the guest's memory in it, had it only as the guest wrote it
            # above; so a second sandbox, whose guest never did, is looked at below.
            expect(holds(seen["pids"]["sandbox"], VALUE.encode()), "this test finds what is there")
            equal(files_with(VALUE.encode()), [])
            expect(files_with(b"stored:LAB_KEY"), "this search finds what is there")
            ok("down", "keeper")
            ok("up", "keeper", "-f", manifest)
            again = guest("keeper", "echo $API_KEY")
            expect(again != placeholder and again.startswith("mvm-secret-"), again)
            has(python("keeper", POST, "https://page.example/", ""), "Bearer " + again)
            seen = sandbox_json("keeper")
            expect(not holds(seen["pids"]["monitor"], VALUE.encode()), "the machine's memory holds the value")
            for pid in seen["pids"].values():
                for name in ("cmdline", "environ"):
                    expect(VALUE.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes(), name)
        ok("secret", "rm", "LAB_KEY")


def locked_mappings(pid):
    """Those of a process that are locked, in no core dump and in no forked child."""
    count = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmFlags:"):
            count += {"lo", "dd", "wf"} <= set(line.split()[1:])
    return count


def crash(pid, wake):
    """Ends a process by a fault of its own, with no limit on its core dump: the first of a pid namespace takes no such signal from
    outside. What it runs next, when `wake` has given it something to do, is no instruction."""
    resource.prlimit(pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    seen = []  # by the very look that found it waiting

    def waits():
        seen[:] = pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="utf-8").split()
        return len(seen) > 2

    eventually(waits, f"{pid} waits")
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(int(seen[-1], 16))
        memory.write(b"\x0f\x0b")
    wake()
    eventually(lambda: not pathlib.Path(f"/proc/{pid}").exists(), f"{pid} ends")


def test_values_are_in_locked_pages_and_in_no_core_dump():
    """On the processes that hold values: the sandbox's, and the daemon, whose memory they pass through."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    usual = pattern.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        pattern.write_text(folder + "/core.%p", encoding="utf-8")
        try:
            with sandbox("locked", "--secret", "LAB_KEY@page.example", "--allow-host", "page.example", env={"LAB_KEY": VALUE}):
                found = sandbox_json("locked")["pids"]
                status = pathlib.Path(f"/proc/{found['sandbox']}/status").read_text(encoding="utf-8")
                locked = int(status.split("VmLck:")[1].split()[0])
                expect(4 <= locked <= 64, f"{locked} KiB are locked")
                equal(locked_mappings(found["sandbox"]) > 0, True, "locked mappings")
                equal(locked_mappings(os.getpid()), 0, "this process has none")
                daemon = json.loads(ok("daemon", "status", "--json").out)["pid"]
                # One that may be dumped, so that this test finds what is there.
                with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as control:
                    crash(control.pid, lambda: (control.stdin.close(), control.wait()))
                expect(os.path.exists(f"{folder}/core.{control.pid}"), os.listdir(folder))
                crash(found["sandbox"], lambda: mvm("exec", "locked", "--", "true"))
                crash(daemon, lambda: mvm("ps"))
                equal(os.listdir(folder), [f"core.{control.pid}"], "core dumps")
                equal(sandbox_json("locked")["state"], "crashed")
        finally:
            pattern.write_text(usual, encoding="utf-8")


def test_misuse_ends_the_sandbox_where_the_rule_says_so():
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("page.example", folder, Echo):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nallow_hosts = ["page.example"]\nresolvers = ["127.0.0.1:{names.port}"]\n'
                       '[secrets]\nAPI_KEY = { hosts = ["elsewhere.example"], on_misuse = "end" }\n')
        with sandbox("ended", "-f", manifest, env={"API_KEY": VALUE}):
            mvm("exec", "ended", "--", "python3", "-c", POST, "http://page.example/", "")
            seen = sandbox_json("ended")
            equal((seen["state"], seen["end"]["reason"]), ("stopped", "killed"))
            has(seen["end"]["detail"], "API_KEY")
