"""Images in the store, as far as guests are concerned."""
import io
import json
import pathlib
import tarfile
import tempfile

from harness import equal, expect, guest, has, mvm, ok, sandbox, shared


def test_an_image_of_a_directory_boots():
    """A root file system of one static program."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        (root / "bin").mkdir(parents=True)
        busybox = pathlib.Path("/bin/busybox").read_bytes()
        (root / "bin/sh").write_bytes(busybox)
        (root / "bin/sh").chmod(0o755)
        ok("image", "import", str(root), "tiny")
    try:
        with sandbox("tiny", image="tiny"):
            equal(guest("tiny", "echo hello"), "hello")
            has(mvm("image", "rm", "tiny").err, "tiny")
    finally:
        ok("image", "rm", "tiny")


def test_base_image_has_what_agents_need():
    name = shared()
    for script in ("python3 -c 'import json, csv, ssl, sqlite3'", "test -s /etc/ssl/certs/ca-certificates.crt", "curl --version",
                   "echo x | gzip | gunzip", "tar --version", "ps"):
        guest(name, script)


def test_the_root_is_writable_and_the_image_is_not():
    name = shared()
    guest(name, "echo changed >/etc/motd && rm /usr/bin/tac && touch /usr/bin/new")
    with sandbox("fresh"):
        guest("fresh", "test -e /usr/bin/tac && test ! -e /usr/bin/new")
    expect(mvm("exec", name, "--", "sh", "-c", "echo x >/dev/vda").code != 0, "the image's disk takes writes")


def test_hostile_archives_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("../escape", "/absolute/../../x"):
            archive = pathlib.Path(folder, "evil.tar")
            with tarfile.open(archive, "w") as tar:
                entry = tarfile.TarInfo(name)
                entry.size = 1
                tar.addfile(entry, io.BytesIO(b"x"))
            got = mvm("image", "import", str(archive), "evil")
            equal(got.code, 125, repr(got))
        archive.write_bytes(archive.read_bytes()[:700])
        equal(mvm("image", "import", str(archive), "evil").code, 125)
        equal([i["name"] for i in json.loads(ok("image", "ls", "--json").out) if "evil" in i["name"]], [])
