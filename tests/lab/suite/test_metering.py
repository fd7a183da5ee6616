"""Use of AI providers: counted, bounded by a budget, and remembered."""
import contextlib
import http.server
import json
import tempfile

from harness import equal, has, mvm, ok, sandbox
from test_network import certified, internet, python

ANSWER = json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-2024-08-06",
                     "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29}}).encode()


class Provider(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        pass


ASK = r"""
import json, urllib.error, urllib.request
request = urllib.request.Request("https://api.openai.com/v1/chat/completions", b'{"model":"gpt-4o"}', {"Content-Type": "application/json"})
try:
    print(json.load(urllib.request.urlopen(request, timeout=60))["usage"]["total_tokens"])
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["error"]["budget"])
"""


def usage():
    [one] = json.loads(ok("ai", "usage", "--json").out)
    return one


@contextlib.contextmanager
def metered(name, budget):
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("api.openai.com", folder, Provider):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nallow_hosts = ["api.openai.com"]\nresolvers = ["127.0.0.1:{names.port}"]\n'
                       f'[network.ai]\nbudget = {{ {budget} }}\n')
        with sandbox(name, "-f", manifest):
            yield


def test_a_budget_is_crossed_once():
    """The answer that crosses the budget passes, the next request is refused, and both are counted."""
    with metered("crossing", "max_total_tokens = 20"):
        equal(python("crossing", ASK), "29")
        equal(python("crossing", ASK), "429 max_total_tokens")
        equal((usage()["spent"]["total_tokens"], usage()["counts"]["refused"]), (29, 1))
        has(ok("metrics").out,
            'mvm_instance_ai_tokens_total_total{instance="crossing",provider="openai",model="gpt-4o-2024-08-06"} 29')
        has(mvm("ai", "usage").out, "crossing: 29 of 20 tokens")
        records = [json.loads(line) for line in ok("audit", "show", "--json", "crossing").out.splitlines()]
        equal([(one["model"], one["usage"], one["total_tokens"]) for one in records if one["kind"] == "ai_usage"],
              [("gpt-4o-2024-08-06", "reported", 29)])


def test_a_budget_is_remembered():
    """After the sandbox has started again the budget is as used up as it was; a reset begins it anew."""
    with metered("remembered", "max_requests = 1"):
        equal(python("remembered", ASK), "29")
        ok("down", "remembered")
        ok("up", "remembered", timeout=300)
        equal(python("remembered", ASK), "429 max_requests")
        ok("ai", "budget", "reset", "remembered")
        equal((usage()["spent"]["requests"], usage()["counts"]["total_tokens"]), (0, 29))
