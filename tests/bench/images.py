"""Figures of images, on the host: no guest takes part.

oci.vs_tools       pull of a 400 MiB image of 30 000 files from a loopback registry to a bootable image, against
                   `skopeo copy`, `umoci unpack` and `mkfs.erofs` in a row
oci.vs_msb         the same pull against `msb pull`
image.second_up    milliseconds that finding a known image of an OCI layout takes: importing it again, all of the command
image.memory       MiB that the daemon's resident memory peaks at while it imports that image, and one five times its size
"""
import contextlib
import json
import hashlib
import io
import os
import pathlib
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

LAYERS = 6
FILES = 30_000
BYTES = 400 << 20


def layout(folder, size, files, seed=1):
    """An OCI layout of LAYERS gzip layers: half of the bytes do not compress, as in real images."""
    source = random.Random(seed)
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return digest

    average = size // files
    layers, diff_ids = [], []
    for layer in range(LAYERS):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for number in range(files // LAYERS):
                length = source.randrange(average // 4, average * 7 // 4)
                entry = tarfile.TarInfo(f"usr/l{layer}/d{number // 100}/file{number}")
                entry.size, entry.mtime, entry.mode = length, 1_700_000_000, 0o644
                half = length // 2
                tar.addfile(entry, io.BytesIO(source.randbytes(half) + b"some text, over and over\n" * (half // 25 + 1)))
        plain = raw.getvalue()
        packed = subprocess.run(["gzip", "-6n"], input=plain, stdout=subprocess.PIPE, check=True).stdout
        diff_ids.append("sha256:" + hashlib.sha256(plain).hexdigest())
        layers.append({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:" + blob(packed),
                       "size": len(packed)})
    config = json.dumps({"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/bin/sh"]},
                         "rootfs": {"type": "layers", "diff_ids": diff_ids}}).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:" + blob(config),
                   "size": len(config)},
        "layers": layers}).encode()
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (folder / "index.json").write_text(json.dumps({
        "schemaVersion": 2, "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + blob(manifest),
            "size": len(manifest), "annotations": {"org.opencontainers.image.ref.name": "v1"}}]}))


@contextlib.contextmanager
def registry(folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder.mkdir()
    (folder / "config.yml").write_text(f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder}}}}}\n"
                                       f"http: {{addr: '127.0.0.1:{port}'}}\n")
    server = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"})
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


class Daemon:
    """mvm with directories of its own; each a daemon of its own."""

    def __init__(self, mvm, folder):
        self.mvm, self.folder = mvm, folder
        folder.mkdir(mode=0o700)
        self.env = dict(os.environ, MVM_RUNTIME_DIR=str(folder / "run"), MVM_DATA_DIR=str(folder / "data"))
        self.run("image", "ls")  # starts it

    def run(self, *words, check=True):
        return subprocess.run([self.mvm, *words], env=self.env, check=check, capture_output=True, text=True).stdout

    def timed(self, *words):
        start = time.monotonic()
        self.run(*words)
        return time.monotonic() - start

    def pid(self):
        return json.loads(self.run("daemon", "status", "--json"))["pid"]

    def peak(self):
        status = pathlib.Path(f"/proc/{self.pid()}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024

    def close(self):
        process = pathlib.Path(f"/proc/{self.pid()}")
        self.run("daemon", "stop", check=False)
        while process.exists():  # it closes its files last
            time.sleep(0.01)


def by_tools(host, work):
    start = time.monotonic()
    subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", f"docker://{host}/big:v1",
                    f"oci:{work}/oci:v1"], check=True, capture_output=True)
    subprocess.run(["umoci", "unpack", "--rootless", "--image", f"{work}/oci:v1", f"{work}/bundle"], check=True,
                   capture_output=True)
    subprocess.run(["mkfs.erofs", f"{work}/root.erofs", f"{work}/bundle/rootfs"], check=True, capture_output=True)
    elapsed = time.monotonic() - start
    for name in ("oci", "bundle"):
        shutil.rmtree(work / name)
    (work / "root.erofs").unlink()
    return elapsed


def by_msb(host):
    peer = pathlib.Path(__file__).parent / "peers/msb"
    return int(subprocess.run([peer, "pull", f"{host}/big:v1"], check=True, capture_output=True, text=True).stdout) / 1000


def measure(mvm, wanted, rounds, smoke):
    """A dictionary of figures. A smoke run is the same with a hundredth of the bytes."""
    scale = 100 if smoke else 1
    values = {}
    with tempfile.TemporaryDirectory(prefix="mvm-bench-") as name:
        work = pathlib.Path(name)
        layout(work / "layout", BYTES // scale, FILES // scale)
        peers = {}
        if "oci.vs_tools" in wanted:
            peers["oci.vs_tools"] = lambda host: by_tools(host, work)
        if "oci.vs_msb" in wanted and "MVM_BENCH_NO_MSB" not in os.environ:
            peers["oci.vs_msb"] = by_msb
        if peers:
            with registry(work / "registry") as host:
                subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false",
                                f"oci:{work}/layout:v1", f"docker://{host}/big:v1"], check=True, capture_output=True)
                ratios = {name: [] for name in peers}
                for turn in range(rounds):
                    for name, peer in peers.items():
                        daemon = Daemon(mvm, work / f"pull{turn}")
                        ours = daemon.timed("image", "pull", "-q", f"{host}/big:v1")
                        daemon.close()
                        shutil.rmtree(work / f"pull{turn}")
                        theirs = peer(host)
                        print(f"{name}: mvm {ours:.2f} s, peer {theirs:.2f} s", flush=True, file=sys.stderr)
                        ratios[name].append(ours / theirs)
                values.update({name: statistics.median(each) for name, each in ratios.items()})
        if {"image.second_up", "image.memory"} & set(wanted):
            daemon = Daemon(mvm, work / "import")
            daemon.run("image", "import", "-q", str(work / "layout"), "big")
            again = [daemon.timed("image", "import", "-q", str(work / "layout"), "big") for _ in range(4 * rounds + 1)]
            values["image.second_up"] = statistics.median(again) * 1000
            shutil.rmtree(work / "layout")
            layout(work / "layout", 5 * BYTES // scale, FILES // scale, seed=2)
            daemon.run("image", "import", "-q", str(work / "layout"), "bigger")
            values["image.memory"] = daemon.peak()
            daemon.close()
    return values
