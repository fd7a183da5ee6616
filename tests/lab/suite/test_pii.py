"""Personal data in a guest's requests: tokens leave, values come back, and the output of a command can be cleaned."""
import tempfile

import test_network as network
from harness import equal, expect, has, ok, sandbox

MAIL = "jane.doe@example.com"


def test_tokens_leave_and_values_come_back():
    """Over TLS a server sees a token and the guest its value; the audit log has the class; exec --redact hides it."""
    seen = []
    do_get = network.Page.do_GET

    def remember(page):
        seen.append(page.path)
        do_get(page)
    network.Page.do_GET = remember
    try:
        with network.internet() as names, tempfile.TemporaryDirectory() as folder, network.certified("page.example", folder):
            manifest = folder + "/mvm.toml"
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(f'[network]\nallow_hosts = ["page.example"]\nresolvers = ["127.0.0.1:{names.port}"]\n'
                           '[pii]\nmode = "tokenize"\nrules = ["deny us_ssn"]\n')
            with sandbox("pii", "-f", manifest):
                got = network.python("pii", network.FETCH, "https://page.example/find?mail=" + MAIL)
                has(got, "page.example/find?mail=" + MAIL[:10])
                has(network.python("pii", network.FETCH, "https://page.example/?ssn=234-56-7891"), "failed: Forbidden")
                equal(len(seen), 1, seen)
                has(seen[0], "mvmpii")
                expect("jane" not in seen[0], seen)
                log = ok("audit", "show", "pii").out
                has(log, "pii    tokenized email in query, page.example:443")
                has(log, "pii    restored in body, page.example:443")
                has(log, "pii    denied us_ssn in query, page.example:443")
                expect("jane" not in log and "7891" not in log, log)
                equal(ok("exec", "--redact", "pii", "--", "printf", "%s, and %s", MAIL, "word").out, "[redacted], and word")
    finally:
        network.Page.do_GET = do_get
