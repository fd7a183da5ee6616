"""mvm mcp: a client of the Model Context Protocol on a real guest."""
import json
import subprocess
import threading

from harness import MVM, Failed, equal, eventually, expect, has, processes, sandbox, shared, start


class Client:
    """Speaks to a server of its own, one call at a time; notifications may be sent meanwhile."""

    def __init__(self, *args):
        self.process = start("mcp", *args)
        self.number = 0
        got = self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                          "clientInfo": {"name": "lab", "version": "1"}})
        equal(got["protocolVersion"], "2025-06-18")
        self.notify("notifications/initialized", {})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def begin(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        return self.number

    def answer(self, number):
        watch = threading.Timer(60, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            raise Failed(f"the server ended: {self.process.stderr.read()!r}")
        got = json.loads(line)
        equal(got.get("id"), number, got)
        return got["result"]

    def request(self, method, params):
        return self.answer(self.begin(method, params))

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        equal(json.loads(result["content"][0]["text"]), result["structuredContent"])
        return result["structuredContent"]

    def end(self):
        self.process.stdin.close()
        equal(self.process.wait(60), 0, "exit code of the server")


def test_a_model_uses_a_sandbox():
    """It runs, writes and reads; what it cancels ends in the guest with its children; so does the rest with the server."""
    name = shared()
    client = Client(name)
    got = client.call("run", argv=["sh", "-c", "echo out; echo err >&2; exit 3"])
    equal((got["status"], got["exit_code"], got["stdout"], got["stderr"]), ("command_failed", 3, "out\n", "err\n"))
    equal(got["sandbox"], name)
    has(subprocess.run([MVM, "audit", "show", name], capture_output=True, check=True).stdout.decode(), got["run_id"])
    equal(client.call("write_file", path="/tmp/mcp.txt", content="grüße\n", mode="0640")["status"], "ok")
    equal(client.call("run", argv=["stat", "-c", "%a %s", "/tmp/mcp.txt"])["stdout"], "640 8\n")
    equal(client.call("read_file", path="/tmp/mcp.txt")["content"], "grüße\n")
    equal(client.call("read_file", path="/no/such")["status"], "file_error")
    equal(client.call("network_refusals")["status"], "ok")

    sleeps = ["sh", "-c", "sleep 1234 & sleep 1234"]
    number = client.begin("tools/call", {"name": "run", "arguments": {"argv": sleeps}})
    eventually(lambda: list(processes(name).values()).count("sleep") == 2, "both sleep")
    client.notify("notifications/cancelled", {"requestId": number})
    eventually(lambda: "sleep" not in processes(name).values(), "what was cancelled has ended")
    equal(client.call("run", argv=["true"])["status"], "ok")  # and was not answered

    client.begin("tools/call", {"name": "run", "arguments": {"argv": sleeps}})
    eventually(lambda: list(processes(name).values()).count("sleep") == 2, "both sleep")
    client.end()
    eventually(lambda: "sleep" not in processes(name).values(), "they ended with the server")


def test_a_model_sees_no_personal_data():
    """With --redact neither what commands print nor files have it, in whatever windows they are read."""
    client = Client(shared(), "--redact")
    got = client.call("run", argv=["printf", "%s, and %s", "jane.doe@example.com", "word"])
    equal((got["stdout"], got["redacted"]), ("[redacted], and word", True))
    client.call("write_file", path="/tmp/mcp.txt", content="to jane.doe@example.com, bye")
    seen, offset = "", 0
    while offset is not None:
        got = client.call("read_file", path="/tmp/mcp.txt", offset=offset, limit=7)
        seen, offset = seen + got["content"], got.get("next_offset")
    equal(seen, "to [redacted], bye")
    expect("jane" not in json.dumps(client.call("run", argv=["cat", "/tmp/mcp.txt"])), "a value was told")
    client.end()


def test_a_sandbox_that_protects_is_redacted_unasked():
    """Its protection of personal data is on, and so is redaction; off where the operator says so."""
    with sandbox("mcp-pii", "--pii", "tokenize"):
        for flags, wanted in (((), "[redacted]"), (("--no-redact",), "jane.doe@example.com")):
            client = Client("mcp-pii", *flags)
            equal(client.call("run", argv=["printf", "%s", "jane.doe@example.com"])["stdout"], wanted)
            client.end()
    client = Client(shared())
    equal(client.call("run", argv=["printf", "%s", "jane.doe@example.com"])["stdout"], "jane.doe@example.com")
    client.end()
