"""What people say of a sandbox's network: at the end of a run, while it runs, and when it asks them."""
import contextlib
import json
import os
import pty
import select
import subprocess
import tempfile
import time

from harness import MVM, equal, eventually, expect, has, mvm, ok, sandbox, start
from test_network import FETCH, internet, python


@contextlib.contextmanager
def with_rules(name, rules):
    """A sandbox with these lines in [network], whose name server knows every name below .example."""
    with internet() as names, tempfile.TemporaryDirectory() as folder:
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nresolvers = ["127.0.0.1:{names.port}"]\n{rules}')
        with sandbox(name, "-f", manifest):
            yield


def fetch(name, url):
    return python(name, FETCH, url)


def pending(*words):
    return json.loads(ok("policy", "pending", "--json", *words).out)


def question(name, what):
    """The one that waits, once it does."""
    found = []

    def look():
        found[:] = [each for each in pending(name) if what in f"{each['method']} {each['host']}:{each['port']}{each['path']}"]
        return found
    eventually(look, f"{name} asks about {what}", 60)
    return found[0]["id"]


def test_a_run_tells_what_it_was_refused():
    """At its end, on standard error, each thing once with its flag; and that the mode let it through."""
    script = FETCH + r"""
import socket
for port in (22, 22, 23):
    try: socket.create_connection(("93.184.216.34", port), 30)
    except OSError: pass
"""
    done = mvm("run", "base", "--memory", "256M", "--", "python3", "-c", script, "http://page.example/x")
    equal(done.code, 0, f"{done}")
    has(done.err, "mvm: the network refused 3 things; what would admit each:\n")
    has(done.err, "page.example (name)  policy_denied  --allow-host page.example:443")
    equal(done.err.count("93.184.216.34:22 "), 1, done.err)
    has(done.err, "--allow-cidr 93.184.216.34:23")
    has(done.out, "failed:")


def test_rules_change_while_it_runs():
    """Allowed and denied from the next connection on, listed, recorded; what nobody could enforce is refused."""
    with with_rules("live", 'allow_hosts = ["base.example"]\nlimits = { total = "1G" }\n'):
        has(fetch("live", "http://page.example/a"), "failed:")
        equal(ok("policy", "allow", "live", "page.example", "10.1.0.0/16").out,
              "live: allowed page.example until it ends\nlive: allowed 10.1.0.0/16 until it ends\n")
        equal(fetch("live", "http://page.example/a"), "14 page.example/a")
        has(ok("policy", "ls", "live").out, "allow    page.example")
        equal(ok("policy", "deny", "live", "page.example:80").code, 0)
        has(fetch("live", "http://page.example/a"), "failed:")
        listed = json.loads(ok("policy", "ls", "live", "--effective", "--json").out)
        equal([(r["outcome"], r["host"], r["ports"]) for r in listed["rules"]],
              [("deny", "page.example", "80"), ("allow", "page.example", "80,443"), ("allow", "base.example", "80,443"),
               ("allow", "10.1.0.0/16", "all")])
        # The opposite takes it back.
        equal(ok("policy", "allow", "live", "page.example:80").code, 0)
        equal(fetch("live", "http://page.example/a"), "14 page.example/a")
        still = mvm("policy", "deny", "live", "*.example")
        has(still.err, "'*.example' is neither a host")
        refused = mvm("policy", "allow", "live", "GET https://page.example/x")
        equal(refused.code, 125, f"{refused}")
        has(refused.err, "certificate authority was made for the hosts of its first rules alone")
        equal(ok("policy", "deny", "live", "*.page.example").code, 0)
        denied = mvm("policy", "allow", "live", "a.page.example")
        equal(denied.code, 1, f"{denied}")
        has(denied.err, "a.page.example is still refused (policy_denied), by rule 'deny *.page.example'")
        records = ok("audit", "show", "live", "--kind", "policy_changed").out.splitlines()
        equal(len(records), 6, "\n".join(records))
        has(records[0], "outcome=allow rule=page.example")
        has(ok("audit", "verify", "live").out, "fine")
        # Of a name that was only looked up the port is a guess; what a person has denied is not suggested.
        rules = ok("policy", "suggest", "live").out
        has(rules, 'allow_hosts = [\n  "page.example:443",\n]\n')
        has(rules, "#   page.example:80  policy_denied\n")
        equal(json.loads(ok("inspect", "live", "--json").out)["network"]["limits"]["total"], 1 << 30)


def test_mode_audit_lets_through_and_writes_the_rules():
    """What no rule admits is reached and recorded; `policy suggest` writes rules with which mode enforce admits it."""
    with with_rules("audited", 'mode = "audit"\n'):
        equal(fetch("audited", "http://page.example/a"), "14 page.example/a")
        has(ok("policy", "ls", "audited", "--effective").out, "audit")
        rules = ok("policy", "suggest", "audited").out
    has(rules, 'allow_hosts = [\n  "page.example:80",\n]\n')
    with with_rules("enforced", rules.split("[network]\n", 1)[1]):
        equal(fetch("enforced", "http://page.example/a"), "14 page.example/a")


class Terminal:
    """mvm with a terminal of its own."""

    def __init__(self, *words):
        self.leader, follower = pty.openpty()
        self.mvm = subprocess.Popen([MVM, *words], stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
                                    env={**os.environ, "TERM": "dumb"})
        os.close(follower)
        self.text = ""

    def until(self, part, seconds=60):
        end = time.monotonic() + seconds
        while part not in self.text:
            ready, _, _ = select.select([self.leader], [], [], max(0, end - time.monotonic()))
            expect(ready, f"{part!r} is not in {self.text!r}")
            try:
                more = os.read(self.leader, 65536)
            except OSError:  # EIO: everybody has left it
                more = b""
            expect(more, f"{part!r} is not in {self.text!r}, and it has ended")
            self.text += more.decode(errors="replace")

    def press(self, keys):
        os.write(self.leader, keys)


ASK = """ask_timeout = "3s"
[[network.routes]]
id = "people"
host = "asked.example"
otherwise = "ask"
[[network.routes]]
id = "writes"
host = "api.example"
rules = [{ id = "read", method = "GET", outcome = "allow" }, { id = "write", method = "POST", outcome = "ask" }]
"""
POST = r"""
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], data=b"x", timeout=120).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


def test_what_asks_waits_for_a_person():
    """A connection and a request wait for `policy approve`, `policy deny`, a key at the terminal, or the end of their time."""
    with with_rules("asks", ASK.replace("3s", "120s")):
        equal(pending("asks"), [])
        # Its path is not part of it: plain HTTP is asked about request by request, so this is one.
        waiting = start("exec", "asks", "--", "python3", "-c", FETCH, "http://asked.example/a")
        first = question("asks", "GET asked.example:80/a")
        equal([each["id"] for each in pending()], [first])
        has(ok("policy", "approve", first, "--scope", "session").out, "allowed for the session: GET asked.example:80/a")
        has(waiting.communicate(timeout=60)[0].decode(), "15 asked.example/a")
        equal(fetch("asks", "http://asked.example/a"), "15 asked.example/a")
        gone = mvm("policy", "approve", first)
        equal(gone.code, 125, f"{gone}")
        has(gone.err, "any more: it was answered, gave up, or its time was over")
        has(ok("policy", "ls", "asks").out, "GET     /a")

        waiting = start("exec", "asks", "--", "python3", "-c", POST, "http://api.example/v1")
        ok("policy", "deny", question("asks", "POST api.example:80/v1"))
        has(waiting.communicate(timeout=60)[0].decode(), "403 ")

        terminal = Terminal("exec", "-it", "asks", "--", "python3", "-c", FETCH, "http://asked.example/b")
        terminal.until("asks: GET asked.example:80/b (rule 'people')")
        terminal.press(b"s")  # for the command, not for the question
        terminal.press(b"\x1d")
        terminal.until("o: allow once, s: allow for the session, d: deny")
        terminal.press(b"o")
        terminal.until("allowed once")
        terminal.until("15 asked.example/b")
        equal(terminal.mvm.wait(60), 0)
        records = ok("audit", "show", "asks", "--kind", "answered").out
        equal([line.split("outcome=")[1].split(" question=")[0] + " " + line.split("scope=")[1] for line in records.splitlines()],
              ["allow session", "deny once", "allow once"])
    with with_rules("late", ASK):
        has(fetch("late", "http://asked.example/a"), "failed:")
        has(ok("logs", "late", "--egress").out, "ask_user")
