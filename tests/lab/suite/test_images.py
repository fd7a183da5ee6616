"""Images in the store, as far as guests are concerned."""
import io
import json
import pathlib
import tarfile
import tempfile

import oci
from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, shared


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


def test_what_an_image_says_is_run_in_it():
    with tempfile.TemporaryDirectory() as folder:
        oci.layout(folder, {"app": (None, 0o755, 1000), "nix/store": (None, 0o1775, 0),
                            "app/ca.pem": (b"-----BEGIN CERTIFICATE-----\n", 0o644, 0)}, {
            "User": "1000:1000", "WorkingDir": "/app", "Env": ["X=1", "PATH=/bin", "SSL_CERT_FILE=/app/ca.pem"], "Entrypoint": ["sh", "-c"],
            "Cmd": ["busybox id -u; pwd; echo X=$X; busybox stat -c %a /nix/store"]})
        ok("image", "import", folder, "says")
    try:
        equal(ok("run", "says", "--memory", "256M").out.split(), ["1000", "/app", "X=1", "1775"])
        # Flags win. An image that has no certificates where others have them trusts the sandbox's own authority all the same, also
        # where it says itself which certificates count.
        equal(ok("run", "--user", "0", "--workdir", "/", "--env", "X=2", "--allow-endpoint", "GET https://page.example/**", "says", "--",
                 "/bin/sh", "-c", "busybox id -u; pwd; echo X=$X; busybox grep -l 'own authority' $SSL_CERT_FILE $GIT_SSL_CAINFO; "
                 "busybox grep -l BEGIN $NODE_EXTRA_CA_CERTS").out.split(),
              ["0", "/", "X=2", "/app/ca.pem", "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/mvm-sandbox.pem"])
    finally:
        ok("image", "rm", "says")


# Says by which signal it was asked to end, in a little while: `mvm down` has patience.
ASKED = "; ".join([f"trap 'busybox sleep 2; echo {name} >/asked; exit' {name}" for name in ("QUIT", "TERM")] +
                  ["echo >/ready", "while :; do busybox sleep 0.2; done"])


def test_its_stop_signal_asks_commands_to_end():
    for signal, name in (({}, "TERM"), ({"StopSignal": "SIGQUIT"}, "QUIT")):
        with tempfile.TemporaryDirectory() as folder:
            oci.layout(folder, {}, {"Env": ["PATH=/bin"], **signal})
            ok("image", "import", folder, "asks")
        try:
            with sandbox("asked", image="asks"):
                ok("exec", "--detach", "asked", "--", "sh", "-c", ASKED)
                eventually(lambda: mvm("exec", "asked", "--", "busybox", "test", "-e", "/ready").code == 0, "it is ready")
                ok("down", "--grace", "20s", "asked")
                ok("up", "asked")
                equal(guest("asked", "busybox cat /asked"), name)
        finally:
            ok("image", "rm", "asks")


def test_set_user_id_programs_work():
    """What lets go of root, and what takes it (su, sudo, gosu), does so as on any host."""
    name = shared()
    equal(guest(name, "stat -c %a,%u /usr/bin/su"), "4755,0")
    guest(name, "cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id")
    equal(ok("exec", "--user", "1000", name, "--", "/tmp/id", "-u").out.strip(), "0")
    # A server that will not run as root is started so.
    equal(guest(name, "setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'id -u; id -g; id -G'").split(), ["1000"] * 3)


def test_a_folder_mounted_below_a_sticky_one_keeps_its_owners():
    name = shared()
    guest(name, "mkdir -p /srv/sticky/tree /srv/mine && chmod 1775 /srv/sticky && chown 0:30000 /srv/sticky "
                "&& echo x >/srv/mine/f && chown -R 1000:1000 /srv/mine && mount --bind /srv/mine /srv/sticky/tree")
    try:
        equal(guest(name, "stat -c %a,%u:%g /srv/sticky /srv/sticky/tree/f").split(), ["1775,0:30000", "644,1000:1000"])
        equal(ok("exec", "--user", "1000", name, "--", "sh", "-c", "echo y >>/srv/sticky/tree/f; cat /srv/mine/f").out, "x\ny\n")
    finally:
        guest(name, "umount /srv/sticky/tree; rm -rf /srv/sticky /srv/mine")


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
