"""What the jail is on running sandboxes, as /proc tells it: a machine that breaks out of its guest finds nothing."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

from harness import MVM, equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json, shared

NAMESPACES = ("user", "mnt", "pid", "ipc", "uts")


def pids():
    found = sandbox_json(shared())["pids"]
    return {"sandbox": found["sandbox"], "monitor": found["monitor"]}


def status_of(folder):
    return dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line)


def threads():
    for role, pid in pids().items():
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            yield role, task, status_of(task)


def test_every_thread_has_a_filter_and_no_rights():
    seen = set()
    for role, task, status in threads():
        where = f"{role} {task.name} {status['Name']}"
        equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), where)
        for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            equal(int(status[kind], 16), 0, f"{where} {kind}")
        seen.add(status["Name"])
    expect({"mvm-sandbox", "mvm-monitor", "mvm-vcpu", "mvm-disk"} <= seen, f"threads by name: {seen}")


def test_each_process_is_in_namespaces_of_its_own():
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in (*NAMESPACES, "net")}
    links = {role: {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in (*NAMESPACES, "net")} for role, pid in pids().items()}
    for name in NAMESPACES:
        different = {own[name], links["sandbox"][name], links["monitor"][name]}
        equal(len(different), 3, f"{name} namespaces: ours, the sandbox's, the monitor's")
    expect(links["monitor"]["net"] != own["net"], "the monitor has a network of its own")
    for pid in pids().values():
        equal(status_of(pathlib.Path(f"/proc/{pid}"))["NSpid"].split()[-1], "1", "first of its pid namespace")
        own_map = f"{os.getuid()} {os.getuid()} 1".split()
        equal(pathlib.Path(f"/proc/{pid}/uid_map").read_text().split(), own_map, "one user")


def test_the_monitor_has_no_network():
    lines = pathlib.Path(f"/proc/{pids()['monitor']}/net/dev").read_text().splitlines()[2:]
    equal([line.split(":")[0].strip() for line in lines], ["lo"], "its devices")
    equal(pathlib.Path(f"/proc/{pids()['monitor']}/net/route").read_text().splitlines()[1:], [], "its routes")


def test_the_root_is_empty_and_read_only():
    for role, pid in pids().items():
        equal(os.listdir(f"/proc/{pid}/root"), [], f"root of the {role}")
        mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        equal(len(mounts), 1, f"mounts of the {role}: {mounts}")
        has(mounts[0].split()[5], "ro")
        equal(mounts[0].split(" - ")[1].split()[0], "tmpfs", f"root of the {role}")


def descriptors(pid):
    return {int(fd.name): os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()}


def test_descriptors_are_those_that_are_needed():
    data = os.environ["MVM_DATA_DIR"]
    for role, pid in pids().items():
        held = descriptors(pid)
        files = {target for target in held.values() if target.startswith("/") and not target.startswith("/dev/null")}
        if role == "monitor":
            unexpected = {t for t in files if t != "/dev/kvm" and not t.startswith((data, "/memfd:"))}
            expect(any(t.endswith("overlay.img") for t in files), f"the disk is held: {files}")
            expect(not any(t.endswith(("vmlinux", ".cpio")) for t in files), f"the kernel is closed: {files}")
        else:
            expect("/dev/kvm" not in files, "no /dev/kvm")
            expect(not any(t.startswith("anon_inode:kvm") for t in held.values()), "no KVM")
            expect(not any(t.endswith((".img", ".erofs", "console.log")) for t in files), f"no disk: {files}")
            # Directories of mounts that belong to no tree show as "/".
            unexpected = {t for t in files if t != "/" and not t.startswith(data)}
        equal(unexpected, set(), f"descriptors of the {role}")
        kinds = {t.split(":")[0] for t in held.values() if not t.startswith("/")}
        expect(kinds <= {"socket", "pipe", "anon_inode"}, f"{role}: {kinds}")


def limits_of(pid):
    names = {"core": resource.RLIMIT_CORE, "files": resource.RLIMIT_NOFILE, "size": resource.RLIMIT_FSIZE,
             "locked": resource.RLIMIT_MEMLOCK, "processes": resource.RLIMIT_NPROC}
    return {name: resource.prlimit(pid, number) for name, number in names.items()}


def test_limits():
    for role, pid in pids().items():
        limits = limits_of(pid)
        equal(limits["core"], (0, 0), f"{role} core")
        expect(0 < limits["files"][1] <= 4096, f"{role} {limits}")
        expect(0 < limits["size"][1] <= 1 << 40, f"{role} {limits}")
        expect(limits["locked"][1] <= 8 << 20, f"{role} {limits}")
    equal(limits_of(pids()["sandbox"])["processes"], (0, 0), "the sandbox process starts nothing more")


def test_the_monitor_goes_with_the_sandbox_process():
    with sandbox("killed"):
        found = sandbox_json("killed")["pids"]
        os.kill(found["sandbox"], signal.SIGKILL)
        eventually(lambda: not pathlib.Path(f"/proc/{found['monitor']}").exists(), "the monitor goes too")
        eventually(lambda: sandbox_json("killed")["state"] == "crashed", "the crash is noticed")


def test_a_new_daemon_finds_and_kills_both():
    with sandbox("adopted"):
        found = sandbox_json("adopted")["pids"]
        os.kill(int(mvm_daemon_pid()), signal.SIGKILL)
        equal(sandbox_json("adopted")["pids"], found)
        guest("adopted", "true")
        ok("rm", "--force", "adopted")
        for pid in found.values():
            eventually(lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists(), "both are gone")


def mvm_daemon_pid():
    return json.loads(ok("daemon", "status", "--json").out)["pid"]


def test_an_ordinary_user():
    """Everything but root: the same jail by way of the user's own namespaces."""
    # A user of the lab's own, with a copy of the images that it may read.
    home = pathlib.Path(tempfile.mkdtemp(prefix="mvm-user-"))
    try:
        shutil.copytree(os.environ["MVM_BASE_DATA"], home / "data", symlinks=True)
        for path in (home, *home.rglob("*")):
            os.lchown(path, 65533, 65533)
        os.chmod(home / "data", 0o700)
        env = {"MVM_DATA_DIR": str(home / "data"), "MVM_RUNTIME_DIR": str(home / "run"), "HOME": str(home)}
        user = ["setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups"]
        as_user(user, env, "up", "mine", "--image", "base", "--memory", "256M")
        try:
            found = json.loads(as_user(user, env, "inspect", "mine", "--json"))["pids"]
            for pid in found.values():
                status = status_of(pathlib.Path(f"/proc/{pid}"))
                equal((status["Uid"].split()[0], status["NoNewPrivs"], status["Seccomp"]), ("65533", "1", "2"))
                equal(int(status["CapBnd"], 16), 0)
                equal(os.listdir(f"/proc/{pid}/root"), [])
                # What the figures are read from stays readable for who started it.
                read_as(user, f"/proc/{pid}/smaps")
            equal(as_user(user, env, "exec", "mine", "--", "echo", "hello"), "hello\n")
            has(as_user(user, env, "doctor", "--only", "jail"), "namespaces, an empty root")
        finally:
            as_user(user, env, "rm", "--force", "mine")
            as_user(user, env, "daemon", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def as_user(user, env, *arguments):
    done = subprocess.run([*user, MVM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **env}, check=False)
    equal(done.returncode, 0, f"mvm {arguments} as a user: {done.stderr}")
    return done.stdout


def read_as(user, path):
    equal(subprocess.run([*user, "cat", path], capture_output=True, check=False).returncode, 0, f"reading {path}")


def test_doctor_knows_the_jail():
    got = mvm("doctor", "--only", "jail")
    equal(got.code, 0, repr(got))
    has(got.out, "namespaces, an empty root, seccomp, Landlock")


def test_a_cgroup_for_each_sandbox():
    """Both processes are in it, its limits hold, and it goes with the sandbox."""
    if os.getuid() != 0:
        return
    with sandbox("grouped", "--cpus", "2"):
        found = sandbox_json("grouped")
        group = pathlib.Path("/sys/fs/cgroup/mvm/mvm-" + found["id"])
        for pid in found["pids"].values():
            has(pathlib.Path(f"/proc/{pid}/cgroup").read_text(), f"0::/mvm/mvm-{found['id']}\n")
        equal(sorted(group.joinpath("cgroup.procs").read_text().split()), sorted(str(pid) for pid in found["pids"].values()))
        equal(group.joinpath("pids.max").read_text(), "130\n")
        equal(group.joinpath("memory.max").read_text(), f"{(256 + 512) << 20}\n")
        equal(group.joinpath("cpu.weight").read_text(), "200\n")
    eventually(lambda: not group.exists(), "the group goes with the sandbox")
