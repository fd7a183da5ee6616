"""HEALTHCHECK of an image, in a real guest."""
import hashlib
import io
import json
import pathlib
import tarfile
import tempfile

from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, sandbox_json


def image_with_check(folder):
    """An OCI layout: busybox, and a check that a file is there."""
    blobs = pathlib.Path(folder, "blobs/sha256")
    blobs.mkdir(parents=True)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(data)}

    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        busybox = pathlib.Path("/bin/busybox").read_bytes()
        for name, content in (("bin/sh", busybox), ("bin/busybox", busybox), ("srv/ok", b"all is well\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid = len(content), 0o755, 7
            tar.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo("srv")
        entry.type, entry.mode, entry.uid = tarfile.DIRTYPE, 0o755, 7
        tar.addfile(entry)
    packed = blob(layer.getvalue(), "layer.v1.tar")
    config = blob(json.dumps({
        "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [packed["digest"]]},
        "config": {"User": "7", "WorkingDir": "/srv", "Env": ["FILE=ok"], "Healthcheck": {
            "Test": ["CMD-SHELL", "busybox id -u; read line <$FILE && echo \"$line\""], "Interval": 1_000_000_000,
            "Timeout": 10_000_000_000, "Retries": 2}}}).encode(), "config.v1+json")
    manifest = blob(json.dumps({"schemaVersion": 2, "config": config, "layers": [packed]}).encode(), "manifest.v1+json")
    pathlib.Path(folder, "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    pathlib.Path(folder, "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def health_of(name):
    return sandbox_json(name)["health"]


def test_health_follows_the_guest_and_is_nobodys_use():
    with tempfile.TemporaryDirectory() as folder:
        image_with_check(folder)
        ok("image", "import", folder, "checked")
    try:
        with sandbox("well", "--idle-timeout", "40s", image="checked"):
            eventually(lambda: health_of("well")["state"] == "healthy", "it is healthy")
            equal(health_of("well")["exit_code"], 0)
            # As the image's user, in its directory, with its environment.
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
