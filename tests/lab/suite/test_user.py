"""A user without rights: sandboxes and their network work as root's do."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import MVM, Result, equal, has
from test_network import FETCH, PUBLIC, TRY_CONNECT, internet

USER = 1000


def test_reaches_hosts_through_the_proxy():
    """An ordinary user's guest fetches what a rule names, is refused the rest at once, and no process of it has a right."""
    home = tempfile.mkdtemp(prefix="mvm-user-")
    # What is root's, and behind folders of root's, as the user would have it.
    shutil.copytree(os.environ["MVM_BASE_DATA"], home + "/data", symlinks=True)
    shutil.copytree(os.environ["MVM_KERNEL"], home + "/kernel")
    shutil.copy(MVM, home + "/mvm")
    os.mkdir(home + "/run")
    subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)
    for folder in (home + "/data", home + "/run"):
        os.chmod(folder, 0o700)
    os.chmod("/dev/kvm", 0o666)  # as membership of the group kvm does
    environment = {"PATH": os.environ["PATH"], "HOME": home, "MVM_DATA_DIR": home + "/data", "MVM_RUNTIME_DIR": home + "/run",
                   "MVM_KERNEL": home + "/kernel"}

    def mine(*words):
        done = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all", home + "/mvm",
                               *words], env=environment, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                              check=False)
        result = Result(done, 0)
        equal(result.code, 0, f"mvm {' '.join(words)}: {result}")
        return result.out.strip()

    def fetch(url):
        return mine("exec", "mine", "--", "python3", "-c", FETCH, url)

    with internet() as names:
        pathlib.Path(home, "mvm.toml").write_text(
            f'[network]\nallow_hosts = ["page.example"]\nresolvers = ["127.0.0.1:{names.port}"]\n', encoding="utf-8")
        try:
            mine("up", "mine", "--image", "base", "--memory", "256M", "-f", home + "/mvm.toml")
            equal(fetch("http://page.example/a"), "14 page.example/a")
            has(fetch("http://other.example/"), "failed:")
            equal(mine("exec", "mine", "--", "python3", "-c", TRY_CONNECT, PUBLIC, "8080"), "ECONNREFUSED at once")
            equal(names.asked, {"page.example"}, "names that left the host")
            for name, pid in json.loads(mine("inspect", "mine", "--json"))["pids"].items():
                status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
                equal(status["Uid"].split(), [str(USER)] * 4, name)
                equal(int(status["CapEff"], 16), 0, name)
        finally:
            mine("rm", "--force", "mine")
            mine("daemon", "stop")
