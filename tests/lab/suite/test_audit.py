"""The audit log of a real sandbox: who writes it is jailed, and it is as written whatever ends it."""
import json
import os
import pathlib
import signal

from harness import equal, eventually, expect, has, mvm, ok, sandbox, sandbox_json


def records(name=None):
    return [json.loads(line) for line in ok("audit", "show", "--json", *([name] if name else [])).out.splitlines()]


def verified(*arguments):
    got = mvm("audit", "verify", "--json", *arguments)
    return got.code, json.loads(got.out)


def test_commands_are_written_by_the_sandbox_itself():
    with sandbox("audited") as name:
        run = json.loads(mvm("exec", "--json", name, "--", "sh", "-c", "exit 3").out)
        equal(run["exit_code"], 3)
        kinds = [(r["kind"], r.get("run_id"), r.get("exit_code")) for r in records(name)]
        expect(("exec_started", run["run_id"], None) in kinds, f"{kinds}")
        expect(("exec_ended", run["run_id"], 3) in kinds, f"{kinds}")
        has(ok("audit", "why", run["run_id"]).out, "exec_ended")
        # A command's words are nobody's business.
        expect("exit 3" not in ok("audit", "show", name).out, "argv in the log")
        code, found = verified(name)
        equal((code, found["ok"], found["logs"][0]["closed"]), (0, True, False))
        identity = sandbox_json(name)["id"]
        ok("down", name)
        code, found = verified(identity)
        equal((code, found["logs"][0]["closed"], found["logs"][0]["unsigned_records"]), (0, True, 0))


def test_it_survives_a_killed_sandbox_process():
    with sandbox("audited") as name:
        seen = sandbox_json(name)
        os.kill(seen["pids"]["sandbox"], signal.SIGKILL)
        eventually(lambda: sandbox_json(name)["state"] == "crashed", "it has crashed")
        code, found = verified(seen["id"])
        equal((code, found["ok"], found["logs"][0]["closed"]), (0, True, True))
        ended = [r for r in records() if r["kind"] == "ended" and r["sandbox_id"] == seen["id"]]
        equal([r["reason"] for r in ended], ["crashed"])
        # What the daemon remembers of it tells that the end was cut off.
        folder = pathlib.Path(os.environ["MVM_DATA_DIR"], "audit", seen["id"])
        last = sorted(folder.iterdir())[-1]
        last.unlink()
        code, found = verified(seen["id"])
        equal((code, found["logs"][0]["problem"]["wrong"]), (1, "truncated"))
