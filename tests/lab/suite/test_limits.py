"""Limits hold, also without a daemon; and whatever ends a sandbox, the reason is known."""
import json
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from harness import MVM, equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json, shared, start

# How many of what costs a boot each; a longer run sets more.
TOGETHER = int(os.environ.get("MVM_LAB_TOGETHER", "4"))
CYCLES = int(os.environ.get("MVM_LAB_CYCLES", "6"))
KILLS = int(os.environ.get("MVM_LAB_KILLS", "8"))
SEED = int(os.environ.get("MVM_LAB_SEED", str(random.randrange(1 << 32))))


def end_of(name):
    return sandbox_json(name).get("end") or {}


def ended(name):
    return sandbox_json(name)["state"] not in ("queued", "starting", "running", "stopping")


def kill_daemon():
    os.kill(json.loads(ok("daemon", "status", "--json").out)["pid"], signal.SIGKILL)


def test_ttl_ends_a_sandbox_and_its_commands_without_a_daemon():
    with sandbox("brief", "--ttl", "20s"):
        left = sandbox_json("brief")["ttl_left_ms"]
        expect(0 < left <= 20_000, f"{left} ms left")
        command = start("exec", "brief", "--", "sleep", "1000")
        kill_daemon()
        out, err = command.communicate(timeout=60)
        equal(command.returncode, 124, repr(err))
        has(err.decode(), "time_limit")
        eventually(lambda: ended("brief"), "it ends")
        equal(end_of("brief")["reason"], "time_limit")
        has(ok("ps", "-a").out, "time_limit")


def test_run_ends_with_its_ttl():
    got = mvm("run", "base", "--memory", "128M", "--ttl", "10s", "--", "sleep", "1000")
    equal(got.code, 124, repr(got))
    has(got.err, "time_limit")


def test_idle_sandbox_ends_and_a_used_one_does_not():
    with sandbox("lazy", "--idle-timeout", "6s", memory="128M"):
        guest("lazy", "sleep 9")  # longer than it may idle
        equal(sandbox_json("lazy")["state"], "running")
        expect(sandbox_json("lazy")["idle_left_ms"] <= 6000, "what is left is told")
        kill_daemon()
        time.sleep(1)
        eventually(lambda: ended("lazy"), "it ends by itself")
        equal(end_of("lazy")["reason"], "idle_timeout")


def test_use_prolongs_the_idle_time_alone():
    """Whoever connects leaves the time to live as it is; any command, however short, puts the idle time off."""
    with sandbox("dated", "--ttl", "30m", "--idle-timeout", "8s", memory="128M"):
        began, before = time.monotonic(), sandbox_json("dated")["ttl_left_ms"]
        for _ in range(4):
            time.sleep(4)
            guest("dated", "true")
        passed, after = (time.monotonic() - began) * 1000, sandbox_json("dated")["ttl_left_ms"]
        equal(sandbox_json("dated")["state"], "running")
        expect(abs(before - after - passed) < 5000, f"{before} ms were left, {passed} have passed, {after} are left")
        eventually(lambda: ended("dated"), "it ends when nobody uses it")
        equal(end_of("dated")["reason"], "idle_timeout")


def test_limits_of_a_command_hold():
    with sandbox("bounds", "--wall-clock", "3s", "--output-limit", "1K", memory="128M"):
        equal(mvm("exec", "bounds", "--", "sleep", "1000").code, 124)
        equal(mvm("exec", "bounds", "--timeout", "1h", "--", "sleep", "1000").code, 124)
        got = mvm("exec", "bounds", "--", "sh", "-c", "head -c 5000 /dev/zero | tr '\\0' x")
        equal(len(got.out), 1024, repr(got))


def test_killed_processes_are_named():
    for which in ("monitor", "sandbox"):
        with sandbox("victim", memory="128M"):
            pids = sandbox_json("victim")["pids"]
            command = start("exec", "victim", "--", "sh", "-c", "touch /tmp/on; exec sleep 1000")
            eventually(lambda: mvm("exec", "victim", "--", "test", "-e", "/tmp/on").code == 0, "the command runs")
            os.kill(pids[which], signal.SIGKILL)
            eventually(lambda: ended("victim"), "it ends")
            shown = sandbox_json("victim")
            equal((shown["state"], shown["end"]["reason"]), ("crashed", "crashed"))
            has(shown["end"]["detail"], "SIGKILL")
            has(shown["end"]["detail"], "the monitor" if which == "monitor" else f"process {pids[which]}")
            _, err = command.communicate(timeout=60)
            equal(command.returncode, 125, repr(err))
            has(err.decode(), "SIGKILL")
            for pid in pids.values():
                eventually(lambda p=pid: not os.path.exists(f"/proc/{p}"), f"process {pid} is gone")
            expect(not os.path.exists(os.environ["MVM_RUNTIME_DIR"] + "/s/victim"), "its sockets are gone")


def test_run_says_what_became_of_its_sandbox():
    """The record of an ephemeral sandbox is gone with it; the reason is not."""
    run = start("run", "base", "--name", "gone", "--memory", "128M", "--", "sh", "-c", "touch /tmp/on; exec sleep 1000")
    eventually(lambda: mvm("exec", "gone", "--", "test", "-e", "/tmp/on").code == 0, "the command runs", 90)
    os.kill(sandbox_json("gone")["pids"]["sandbox"], signal.SIGKILL)
    _, err = run.communicate(timeout=60)
    equal(run.returncode, 125, repr(err))
    has(err.decode(), "SIGKILL")
    equal([s["name"] for s in json.loads(ok("ps", "-a", "--json").out) if s["name"] == "gone"], [])


def state():
    """What may not grow: sandboxes, files, mounts."""
    run, data = os.environ["MVM_RUNTIME_DIR"], os.environ["MVM_DATA_DIR"]
    return {
        "sandboxes": len(json.loads(ok("ps", "-a", "--json").out)),
        "runtime": sorted(os.listdir(run + "/s")),
        "data": sorted(os.listdir(data + "/sandboxes")),
        "overlays": len([n for n in os.listdir(data + "/overlay") if ".new" in n]),
        "mounts": len(open("/proc/self/mounts", encoding="utf-8").readlines()),
    }


def processes_of_sandboxes():
    """Of every daemon's, by process id: "sandbox" or "monitor"."""
    lines = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return {int(each[0]): each[2] for each in words if each[1] in (MVM, "mvm") and each[2:3] in (["sandbox"], ["monitor"])}


def strays():
    """Processes and cgroups that belong to no sandbox of this daemon's, nor to its spare."""
    spare = json.loads(ok("daemon", "status", "--json").out)["spare_pid"]
    found = [sandbox_json(each["name"]) for each in json.loads(ok("ps", "-a", "--json").out)]
    known = {pid for each in found for pid in each["pids"].values()} | {spare}
    if spare:
        known |= set(map(int, pathlib.Path(f"/proc/{spare}/task/{spare}/children").read_text().split()))
        groups = {pathlib.Path(f"/proc/{spare}/cgroup").read_text().strip().rpartition("/")[2]}
    else:
        groups = set()
    groups |= {"mvm-" + each["id"] for each in found}
    return ({pid for pid in processes_of_sandboxes() if pid not in known}
            | {path.name for path in pathlib.Path("/sys/fs/cgroup/mvm").glob("mvm-*") if path.name not in groups})


def test_cycles_leave_nothing():
    pids = sandbox_json(shared())["pids"]
    equal({role: processes_of_sandboxes().get(pid) for role, pid in pids.items()}, {role: role for role in pids}, "who they are is seen")
    before, others = state(), strays()
    for _ in range(CYCLES):
        equal(mvm("run", "base", "--memory", "64M", "--", "true").code, 0)
    equal(state(), before)
    eventually(lambda: strays() <= others, "nothing is left of any of them")


def test_many_together_and_more_at_once_than_may_start():
    names = [f"many{i}" for i in range(TOGETHER)]
    results = {}

    def one(name):
        results[name] = mvm("up", name, "--image", "base", "--memory", "64M", timeout=230)

    try:
        threads = [threading.Thread(target=one, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal([(n, r.code, r.err) for n, r in results.items() if r.code != 0], [])
        for name in names:
            equal(guest(name, "hostname"), name)
    finally:
        mvm("rm", "--force", *names)


def test_daemon_killed_at_random_points_is_repaired():
    dice = random.Random(SEED)
    print(f"MVM_LAB_SEED={SEED}")
    operations = [("up", "dice", "--image", "base", "--memory", "64M"), ("exec", "dice", "--", "true"),
                  ("cp", "/etc/hostname", "dice:/tmp/"), ("down", "dice"), ("rm", "--force", "dice")]
    before = state()
    try:
        for _ in range(KILLS):
            operation = dice.choice(operations)
            command = start(*operation)
            time.sleep(dice.random() * dice.choice((0.05, 0.5, 3)))
            kill_daemon()
            command.communicate(timeout=120)
            shown = [s for s in json.loads(ok("ps", "-a", "--json").out) if s["name"] == "dice"]
            if shown and shown[0]["state"] == "running":
                guest("dice", "true")
    finally:
        mvm("rm", "--force", "dice")
    eventually(lambda: state() == before, f"all is as before: {before}, now {state()}")
