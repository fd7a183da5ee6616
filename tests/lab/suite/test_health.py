"""HEALTHCHECK of an image, in a real guest."""
import tempfile

import oci
from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json

# As the image's user, in its directory, with its environment.
CHECK = {"User": "7", "WorkingDir": "/srv", "Env": ["FILE=ok"],
         "Healthcheck": {"Test": ["CMD-SHELL", "busybox id -u; read line <$FILE && echo \"$line\""], "Interval": 1_000_000_000,
                         "Timeout": 10_000_000_000, "Retries": 2}}


def health_of(name):
    return sandbox_json(name)["health"]


def test_health_follows_the_guest_and_is_nobodys_use():
    with tempfile.TemporaryDirectory() as folder:
        oci.layout(folder, {"srv": (None, 0o755, 7), "srv/ok": (b"all is well\n", 0o644, 7)}, CHECK)
        ok("image", "import", folder, "checked")
    try:
        with sandbox("well", "--idle-timeout", "40s", image="checked"):
            eventually(lambda: health_of("well")["state"] == "healthy", "it is healthy")
            equal(health_of("well")["exit_code"], 0)
            equal(health_of("well")["output"], "7\nall is well\n")
            has(ok("ps").out, "running (healthy)")
            guest("well", "busybox rm /srv/ok")
            eventually(lambda: health_of("well")["state"] == "unhealthy", "it is unhealthy")
            expect(health_of("well")["exit_code"] != 0 and health_of("well")["failures"] >= 2, health_of("well"))
            has(health_of("well")["output"], "ok")
            has(ok("ps").out, "running (unhealthy)")
            before = sandbox_json("well")["idle_left_ms"]
            checks = health_of("well")["checks"]
            eventually(lambda: health_of("well")["checks"] > checks + 1, "more checks were made")
            expect(sandbox_json("well")["idle_left_ms"] < before, "a check counts as use")
            guest("well", "echo back >/srv/ok")
            eventually(lambda: health_of("well")["state"] == "healthy", "it is healthy again")
            eventually(lambda: sandbox_json("well")["state"] == "stopped", "it ends by its idle time", 60)
            equal(sandbox_json("well")["end"]["reason"], "idle_timeout")
        with sandbox("alone", "--no-healthcheck", image="checked"):
            equal(health_of("alone"), None)
            has(ok("ps").out, "running  ")
    finally:
        ok("image", "rm", "checked")
        mvm("rm", "-f", "well", "alone")
