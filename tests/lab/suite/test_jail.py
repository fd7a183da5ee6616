"""What the jail is on running sandboxes, as /proc tells it: a machine that breaks out of its guest finds nothing."""
import contextlib
import errno
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

from harness import MVM, equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json, shared
from inject import injector

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
    expect({"mvm-sandbox", "mvm-monitor", "mvm-vcpu", "mvm-disk", "mvm-net"} <= seen, f"threads by name: {seen}")


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


def test_the_monitor_is_a_program_of_its_own():
    # It faces the guest, and has none of the rest of mvm in its memory.
    equal(os.readlink(f"/proc/{pids()['monitor']}/exe"), "/memfd:mvm-monitor (deleted)", "what the monitor runs")


def test_threads_that_serve_rings_wait_for_their_turn():
    """Woken, they do not push the guest aside that fills the ring. Field 41 of stat(5)."""
    policies = {}
    for role, task, status in threads():
        if role == "monitor":
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            policies.setdefault(status["Name"], set()).add(int(fields[38]))
    equal({name: policies[name] for name in ("mvm-net", "mvm-disk", "mvm-vcpu", "mvm-monitor")},
          {"mvm-net": {os.SCHED_BATCH}, "mvm-disk": {os.SCHED_BATCH}, "mvm-vcpu": {os.SCHED_OTHER}, "mvm-monitor": {os.SCHED_OTHER}},
          "scheduling of the monitor's threads")


def test_the_monitor_has_no_network_but_the_guests_link():
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
            # Opened in another mount namespace, whose /dev is gone, the TAP shows without it.
            unexpected = {t for t in files if t != "/dev/kvm" and not t.endswith("/net/tun") and not t.startswith((data, "/memfd:"))}
            expect(any(t.endswith("overlay.img") for t in files), f"the disk is held: {files}")
            expect(not any(t.endswith(("vmlinux", ".cpio")) for t in files), f"the kernel is closed: {files}")
        else:
            expect("/dev/kvm" not in files, "no /dev/kvm")
            expect(not any(t.endswith("/net/tun") for t in files), "no frames of the guest's")
            expect(not any(t.startswith("anon_inode:kvm") for t in held.values()), "no KVM")
            expect(not any(t.endswith((".img", ".erofs", "console.log")) for t in files), f"no disk: {files}")
            # Directories of mounts that belong to no tree show as "/".
            unexpected = {t for t in files if t != "/" and not t.startswith(data)}
        equal(unexpected, set(), f"descriptors of the {role}")
        kinds = {t.split(":")[0] for t in held.values() if not t.startswith("/")}
        expect(kinds <= {"socket", "pipe", "anon_inode"}, f"{role}: {kinds}")


# The flags that the sandbox process's list of system calls lets pass: those of a new file.
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
OPENAT, MKDIRAT, GETPPID = 257, 258, 110


def test_landlock_lets_a_running_sandbox_make_files_where_its_records_are_and_nowhere_else():
    """Landlock shows nowhere in /proc: the process's own calls are made to tell."""
    if os.getuid() != 0:
        return print("skipped: only root may put calls into a process that is not dumpable", flush=True)
    lsm = pathlib.Path("/sys/kernel/security/lsm")
    if not lsm.exists():
        subprocess.run(["mount", "-t", "securityfs", "none", "/sys/kernel/security"], check=True)
    has(lsm.read_text(), "landlock")
    with sandbox("inside"):
        found = sandbox_json("inside")
        pid = found["pids"]["sandbox"]
        folders = [number for number in descriptors(pid) if os.path.isdir(f"/proc/{pid}/fd/{number}")]
        places = {os.stat(f"/proc/{pid}/fd/{number}").st_ino: number for number in folders}
        data = pathlib.Path(os.environ["MVM_DATA_DIR"])
        records, log = data / "sandboxes" / found["id"], data / "audit" / found["id"]
        sockets = pathlib.Path(os.environ["MVM_RUNTIME_DIR"]) / "s" / "inside"
        with injector(pid) as process:
            for folder, fine in ((records, True), (log, True), (sockets, False)):
                got = process.call(OPENAT, places[folder.stat().st_ino], b"made", NEW_FILE, 0o600)
                expect(got >= 0 if fine else got == -errno.EACCES, f"a new file in {folder}: {got}")
                equal((folder / "made").exists(), fine, f"{folder}/made")
        guest("inside", "true")


def test_a_forbidden_call_of_a_running_process_is_its_last():
    if os.getuid() != 0:
        return print("skipped: only root may put calls into a process that is not dumpable", flush=True)
    for role, call in (("sandbox", (MKDIRAT, -100, b"made", 0o700)), ("monitor", (GETPPID,)),
                       ("monitor", (OPENAT, -100, b"/", os.O_RDONLY, 0))):
        with sandbox("killed"):
            pid = sandbox_json("killed")["pids"][role]
            with injector(pid) as process:
                equal(process.call(*call), "SIGSYS", f"{role}: {call}")
            eventually(lambda: sandbox_json("killed")["state"] == "crashed", "the end is noticed")
            has(sandbox_json("killed")["end"]["detail"], "SIGSYS")


def limits_of(pid):
    names = {"core": resource.RLIMIT_CORE, "files": resource.RLIMIT_NOFILE, "size": resource.RLIMIT_FSIZE,
             "locked": resource.RLIMIT_MEMLOCK, "processes": resource.RLIMIT_NPROC}
    return {name: resource.prlimit(pid, number) for name, number in names.items()}


def test_limits():
    for role, pid in pids().items():
        limits = limits_of(pid)
        equal(limits["core"], (0, 0), f"{role} core")
        # The sandbox process has the guest's connections besides.
        expect(0 < limits["files"][1] <= (4096 if role == "monitor" else 20_000), f"{role} {limits}")
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
        os.kill(json.loads(ok("daemon", "status", "--json").out)["pid"], signal.SIGKILL)
        equal(sandbox_json("adopted")["pids"], found)
        guest("adopted", "true")
        ok("rm", "--force", "adopted")
        for pid in found.values():
            eventually(lambda pid=pid: not pathlib.Path(f"/proc/{pid}").exists(), "both are gone")


@contextlib.contextmanager
def somebody(uid):
    """A way to run mvm as a user, root too, with a home, images and a daemon of its own."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="mvm-user-"))
    shutil.copytree(os.environ["MVM_BASE_DATA"], home / "data", symlinks=True)
    # Not every folder above the tree and the kernels need be open to others.
    shutil.copytree(os.environ["MVM_KERNEL"], home / "kernel")
    shutil.copy(MVM, home / "mvm")
    for path in (home, *home.rglob("*")):
        os.lchown(path, uid, uid)
    os.chmod(home / "data", 0o700)
    env = {**os.environ, "MVM_DATA_DIR": str(home / "data"), "MVM_RUNTIME_DIR": str(home / "run"), "HOME": str(home),
           "MVM_KERNEL": str(home / "kernel")}
    become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []

    def run(*command):
        command = [str(home / "mvm") if part == MVM else part for part in command]
        done = subprocess.run([*become, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=env,
                              check=False)
        equal(done.returncode, 0, f"{command} as {uid}: {done.stdout} {done.stderr}")
        return done.stdout
    try:
        run(MVM, "up", "mine", "--image", "base", "--memory", "256M")
        equal(run(MVM, "exec", "mine", "--", "echo", "hello"), "hello\n")
        yield run, json.loads(run(MVM, "inspect", "mine", "--json"))["pids"]
    finally:
        run(MVM, "rm", "--force", "mine")
        run(MVM, "daemon", "stop")
        shutil.rmtree(home, ignore_errors=True)


def test_an_ordinary_user():
    """The same jail, by way of the user's own namespaces."""
    with somebody(65533) as (run, found):
        for pid in found.values():
            status = status_of(pathlib.Path(f"/proc/{pid}"))
            equal((status["Uid"].split()[0], status["NoNewPrivs"], status["Seccomp"]), ("65533", "1", "2"))
            equal(int(status["CapBnd"], 16), 0)
            equal(os.listdir(f"/proc/{pid}/root"), [])
            # What memory figures are read from stays readable for who started it.
            run("cat", f"/proc/{pid}/smaps")
        has(run(MVM, "doctor", "--only", "jail"), "namespaces, an empty root")


@contextlib.contextmanager
def user_namespaces_forbidden():
    setting = pathlib.Path("/proc/sys/user/max_user_namespaces")
    before = setting.read_text()
    setting.write_text("0\n")
    try:
        yield
    finally:
        setting.write_text(before)


def test_an_ordinary_user_where_user_namespaces_are_forbidden():
    """The sandbox starts with the rest of the jail, and doctor says what is missing and how to get it."""
    with user_namespaces_forbidden(), somebody(65533) as (run, found):
        for pid in found.values():
            status = status_of(pathlib.Path(f"/proc/{pid}"))
            equal((status["NoNewPrivs"], status["Seccomp"], int(status["CapEff"], 16)), ("1", "2", 0))
            equal(limits_of(pid)["core"], (0, 0))
        said = run(MVM, "doctor", "--only", "jail")
        has(said, "sandboxes start without: namespaces and an empty root")
        has(said, "sysctl -w user.max_user_namespaces")
        # Nobody outlives the sandbox process here either.
        os.kill(found["sandbox"], signal.SIGKILL)
        eventually(lambda: not pathlib.Path(f"/proc/{found['monitor']}").exists(), "the monitor goes too")


def test_root_where_user_namespaces_are_forbidden():
    with user_namespaces_forbidden(), somebody(0) as (run, found):
        own = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
        for pid in found.values():
            for name in NAMESPACES[1:]:
                expect(os.readlink(f"/proc/{pid}/ns/{name}") != own[name], name)
            equal(int(status_of(pathlib.Path(f"/proc/{pid}"))["CapBnd"], 16), 0)
            equal(os.listdir(f"/proc/{pid}/root"), [])
        has(run(MVM, "doctor", "--only", "jail"), "sandboxes start without: user namespaces")


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
        # KVM adds a thread of its own, which is nobody's here ("0").
        members = set(group.joinpath("cgroup.procs").read_text().split())
        expect({str(pid) for pid in found["pids"].values()} <= members, f"members: {members}")
        equal(group.joinpath("pids.max").read_text(), "130\n")
        equal(group.joinpath("memory.max").read_text(), f"{(256 + 512) << 20}\n")
        equal(group.joinpath("cpu.weight").read_text(), "200\n")
    eventually(lambda: not group.exists(), "the group goes with the sandbox")
