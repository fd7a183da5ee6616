"""Figures of the network, natively: the egress proxy in tests/bench/egress_stand, a namespace in the guest's place, nginx on
the stand's loopback, and the peers before the same nginx. What is compared is measured in turns.

    egress.py inside FIGURE ROUNDS SMOKE    what runs in the stand, and prints one number a line
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build/release/tests/bench"
HOST, ADDRESS = "bench.example", "93.184.216.34"
PLAIN, PLAIN_ADDRESS = "plain.example", "93.184.216.35"  # relayed as it is
STREAM, STREAM_ADDRESS = "stream.example", "93.184.216.36"
MODEL = "model.example"  # like HOST, and all that it says is looked into
# Servers that would become another user when they are root: here they are not, and keep its files.
NOBODY = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
PATHS = "/usr/sbin:/sbin:/usr/bin:/bin"

NGINX = """
daemon off; worker_processes 1; pid {work}/nginx.pid; error_log {work}/nginx.err;
events {{ worker_connections 20000; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000; keepalive_timeout 300s;
  client_body_temp_path {work}/t1; proxy_temp_path {work}/t2; fastcgi_temp_path {work}/t3; uwsgi_temp_path {work}/t4;
  scgi_temp_path {work}/t5; ssl_session_cache shared:s:1m;
  server {{
    listen 0.0.0.0:443 ssl backlog=4096; listen 0.0.0.0:80;
    ssl_certificate {work}/server.pem; ssl_certificate_key {work}/server.key; root {work}/www;
  }}
}}
"""

SQUID = """
http_port 127.0.0.1:3128 ssl-bump tls-cert={work}/squid.pem generate-host-certificates=on dynamic_cert_mem_cache_size=4MB
sslcrtd_program /usr/lib/squid/security_file_certgen -s {work}/ssl_db -M 4MB
sslcrtd_children 2 startup=1
acl step1 at_step SslBump1
acl connects method CONNECT
acl host dstdomain {host}
acl gets method GET
acl paths urlpath_regex ^/1k$ ^/big$
ssl_bump peek step1
ssl_bump bump all
http_access allow connects host
http_access allow gets host paths
http_access deny all
tls_outgoing_options cafile={work}/server.pem
cache deny all
access_log none
cache_log {work}/squid.log
pid_filename {work}/squid.pid
coredump_dir {work}
hosts_file {work}/hosts
shutdown_lifetime 0 seconds
max_filedescriptors 4096
pinger_enable off
logfile_rotate 0
"""


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], check=False, capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        sys.exit(f"egress: {' '.join(done.args)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def certificate(work, name, host, authority):
    extensions = ["-addext", f"subjectAltName=DNS:{host},DNS:{PLAIN},DNS:{MODEL}"]
    if authority:
        extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign,cRLSign"]
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
        f"/CN={host}", *extensions, "-keyout", work / f"{name}.key", "-out", work / f"{name}.pem")


def wait_for(place, process, log):
    """Until somebody listens at ADDRESS:PORT."""
    import socket
    address, port = place.split(":")
    while True:
        if process.poll() is not None:
            sys.exit(f"egress: {process.args[0]} ended:\n{log.read_text()[-2000:] if log.exists() else ''}")
        try:
            socket.create_connection((address, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


class Stand:
    """What runs inside: servers, clients here and in the guest's namespace, processor time."""

    def __init__(self, work):
        self.work, self.servers = work, []
        self.proxy = os.environ["STAND_PROXY"]
        self.authority = os.environ["STAND_AUTHORITY"]

    def server(self, *words, place, log, **options):
        server = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=open(log, "ab"), **options)
        self.servers.append(server)
        wait_for(place, server, log)
        return server

    def nginx(self):
        (self.work / "www").mkdir()
        (self.work / "www/1k").write_bytes(b"x" * 1024)
        (self.work / "www/big").write_bytes(os.urandom(1 << 20) * 100)
        for path in (self.work / "www").iterdir():
            path.chmod(0o644)
        (self.work / "nginx.conf").write_text(NGINX.format(work=self.work))
        pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
        self.server(*NOBODY, "nginx", "-c", self.work / "nginx.conf", place=f"{ADDRESS}:443", log=self.work / "nginx.err")

    def squid(self):
        certificate(self.work, "squid", "squid", True)
        (self.work / "squid.pem").write_text((self.work / "squid.pem").read_text() + (self.work / "squid.key").read_text())
        (self.work / "hosts").write_text(f"{ADDRESS} {HOST}\n")
        (self.work / "squid.conf").write_text(SQUID.format(work=self.work, host=HOST))
        run(*NOBODY, "/usr/lib/squid/security_file_certgen", "-c", "-s", self.work / "ssl_db", "-M", "4MB")
        self.server(*NOBODY, "squid", "-N", "-f", self.work / "squid.conf", place="127.0.0.1:3128", log=self.work / "squid.log")
        return self.servers[-1]

    def load(self, *words, guest=False):
        """What egress_load prints, as a number."""
        prefix = ["nsenter", f"--net={os.environ['STAND_GUEST']}"] if guest else []
        return float(run(*prefix, PROGRAMS / "egress_load", *words))

    def resolve(self, name):
        """The guest asks for a name, and may connect to its addresses from then on."""
        run("nsenter", f"--net={os.environ['STAND_GUEST']}", PROGRAMS / "egress_load", "resolve", "100.127.255.1", name)

    def ours(self, mode, path, count, host=HOST, address=ADDRESS):
        authority = self.authority if host == HOST else self.work / "server.pem"
        return self.load(mode, f"{address}:443", host, authority, path, count, guest=True)

    def peer(self, mode, path, count):
        return self.load(mode, f"{ADDRESS}:443", HOST, self.work / "squid.pem", path, count, "127.0.0.1:3128")

    def close(self):
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.wait()


def used(process):
    """Processor seconds of a process, or of one thread ("PID/TID")."""
    path = f"/proc/{process}/stat" if "/" not in str(process) else "/proc/{}/task/{}/stat".format(*process.split("/"))
    fields = pathlib.Path(path).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def note(text):
    print(text, file=sys.stderr)


def against_squid(stand, rounds, mode, path, count):
    """How many times as fast as squid: a ratio a round."""
    stand.nginx()
    squid = stand.squid()
    stand.resolve(HOST)
    # Leaf certificates are made, and what is read once has been read.
    stand.ours("requests", "/1k", 10)
    stand.peer("requests", "/1k", 10)
    for _ in range(rounds):
        before = used(stand.proxy)
        ours = stand.ours(mode, path, count)
        ours_used = used(stand.proxy) - before
        before = used(squid.pid)
        peer = stand.peer(mode, path, count)
        peer_used = used(squid.pid) - before
        direct = stand.load(mode, f"{ADDRESS}:443", HOST, stand.work / "server.pem", path, count)
        note(f"{mode} {path}: ours {count / ours:.1f}/s ({ours_used:.2f} s of processor), squid {count / peer:.1f}/s ({peer_used:.2f} s), "
             f"without either {count / direct:.1f}/s")
        print(peer / ours, flush=True)


def rps_vs_squid(stand, rounds, smoke):
    against_squid(stand, rounds, "requests", "/1k", 50 if smoke else 10000)


def download_vs_squid(stand, rounds, smoke):
    against_squid(stand, rounds, "download", "/big", 1 if smoke else 5)


def connect_vs_squid(stand, rounds, smoke):
    against_squid(stand, rounds, "connects", "/1k", 10 if smoke else 1000)


def added_latency(stand, rounds, smoke):
    """Microseconds that a request takes longer when it is decided, than over the same path relayed as it is."""
    stand.nginx()
    stand.resolve(HOST)
    stand.resolve(PLAIN)
    count = 50 if smoke else 5000
    for _ in range(rounds):
        relayed = stand.ours("latency", "/1k", count, PLAIN, PLAIN_ADDRESS)
        decided = stand.ours("latency", "/1k", count)
        note(f"latency: relayed {relayed:.1f} us, decided {decided:.1f} us")
        print(decided - relayed, flush=True)


def protection(stand, rounds, smoke):
    """Microseconds that an exchange takes longer when secrets, personal data and use are looked for in it, than decided alone."""
    program = PROGRAMS / "egress_exchange"
    pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    stand.server(program, "serve", f"{ADDRESS}:443", stand.work / "server.pem", stand.work / "server.key", place=f"{ADDRESS}:443",
                 log=stand.work / "exchange.log")
    stand.resolve(HOST)
    stand.resolve(MODEL)
    for _ in range(rounds):
        before = used(stand.proxy)
        guest = ["nsenter", f"--net={os.environ['STAND_GUEST']}", program]
        alone, protected = map(float, run(*guest, "take", f"{ADDRESS}:443", stand.authority, os.environ["STAND_KEY"], 20 if smoke else 5000,
                                          HOST, MODEL).split())
        note(f"exchange: decided {alone:.1f} us, looked into {protected:.1f} us; {used(stand.proxy) - before:.2f} s of processor for both")
        print(protected - alone, flush=True)


def denied_reset(stand, rounds, smoke):
    """Milliseconds until a connection that no rule admits is reset, over the link that a monitor moves frames of."""
    stand.resolve(STREAM)
    for _ in range(rounds):
        median, longest = run("nsenter", f"--net={os.environ['STAND_GUEST']}", PROGRAMS / "egress_load", "denied",
                              f"{STREAM_ADDRESS}:8000", 50 if smoke else 3000).split()
        note(f"denied: median {median} ms, longest {longest} ms")
        print(median, flush=True)


def urgent():
    """Words before a command that has to run at once, where this user may say so."""
    prefix = ["chrt", "--rr", "1"]
    return prefix if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0 else []


def sse_delay(stand, rounds, smoke):
    """Milliseconds from an event's leaving its server to its arrival at a client, over HTTP/1.1 and HTTP/2: the longest of all, but
    for the first five of a client that has just started (20 ms late without a proxy, too). All read the same clock, and have
    priority over other programs if that is to be had: without, the longest tells of those. The same without a proxy is noted."""
    program = ROOT / "tests/bench/egress_events.js"
    pem, first = stand.work / "server.pem", 5
    pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    prefix = urgent()
    if prefix:
        run(*prefix[:2], "--pid", 1, stand.proxy.split("/")[1])
    stand.server(*prefix, "node", program, "serve", ADDRESS, pem, stand.work / "server.key", place=f"{ADDRESS}:443",
                 log=stand.work / "events.log")
    stand.resolve(HOST)
    count = 20 if smoke else 500
    guest = ["nsenter", f"--net={os.environ['STAND_GUEST']}"]
    for _ in range(rounds):
        late = 0
        for version in ("1.1", "2"):
            longest = []
            for way, authority in ((guest, stand.authority), ([], pem)):
                took = json.loads(run(*way, *prefix, "node", program, "take", version, ADDRESS, HOST, authority, first + count))[first:]
                longest.append(max(took))
                note(f"events over HTTP/{version}{'' if way else ' without a proxy'}: median {statistics.median(took):.3f} ms, "
                     f"longest {longest[-1]:.3f} ms")
            late = max(late, longest[0])
        print(late, flush=True)


def memory(process):
    fields = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in fields.splitlines() if line.startswith(("Private_Clean", "Private_Dirty"))) / 1024


def idle_flows(stand, rounds, smoke):
    """MiB of the proxy's own memory that 10 000 flows take, when nothing passes over them."""
    process = stand.proxy.split("/")[0]
    # Two descriptors a flow, and a few more: where so many are not to be had, fewer flows are measured.
    limits = pathlib.Path(f"/proc/{process}/limits").read_text()
    most = next(int(line.split()[3]) for line in limits.splitlines() if line.startswith("Max open files"))
    count = 100 if smoke else min(10000, (most - 200) // 2)
    stand.server(PROGRAMS / "egress_load", "serve", f"{STREAM_ADDRESS}:7000", place=f"{STREAM_ADDRESS}:7000",
                 log=stand.work / "serve.log")
    stand.resolve(STREAM)
    before = memory(process)
    client = subprocess.Popen(["nsenter", f"--net={os.environ['STAND_GUEST']}", str(PROGRAMS / "egress_load"), "hold",
                               f"{STREAM_ADDRESS}:7000", str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if client.stdout.readline() != "held\n":
        sys.exit("egress: the flows could not be opened")
    # Each is there for the proxy when its server has it.
    while (there := len(os.listdir(f"/proc/{stand.servers[-1].pid}/fd"))) < count:
        time.sleep(0.1)
    note(f"idle flows: {count}, for which the server has {there} descriptors")
    print((memory(process) - before) * 10000 / count)
    client.communicate("\n")


class PeerNet:
    """A namespace behind pasta or slirp4netns, whose gateway is the stand's loopback."""

    def __init__(self, work, name):
        log = work / f"{name}.log"
        started = {"stdout": open(log, "ab"), "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        self.processes = []
        if name == "pasta":
            self.address = "192.0.2.1"
            # It makes the namespace, and a command in it.
            self.processes.append(subprocess.Popen(
                [*NOBODY, "pasta", "--foreground", "--config-net", "--ipv4-only", "--mtu", "1500", "-t", "none", "-u", "none", "-T",
                 "none", "-U", "none", "--", "sleep", "infinity"], **started))
            within = self.eventually(log, lambda: self.child_of(self.processes[0].pid, "sleep"))
        else:
            self.address = "10.0.2.2"
            self.processes.append(subprocess.Popen(["unshare", "--net", "sleep", "infinity"], **started))
            within = self.processes[0].pid
            self.eventually(log, lambda: self.child_of(within, None) and os.readlink(f"/proc/{within}/ns/net") !=
                            os.readlink("/proc/self/ns/net"))
            self.processes.append(subprocess.Popen(["slirp4netns", "--configure", "--mtu=1500", str(within), "tap0"], **started))
        self.within = within
        self.prefix = ["nsenter", f"--net=/proc/{within}/ns/net"]
        self.eventually(log, lambda: iperf3(self.prefix, self.address, "--bytes", "1K") is not None)

    @staticmethod
    def child_of(pid, program):
        """A descendant that runs the program; with None, whether the process has become another than unshare."""
        if program is None:
            return pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == program:
                return int(child)
            if found := PeerNet.child_of(int(child), program):
                return found
        return None

    def eventually(self, log, check):
        deadline = time.monotonic() + 20
        while not (result := check()):
            if time.monotonic() > deadline or any(process.poll() is not None for process in self.processes):
                sys.exit(f"egress: a peer does not start:\n{log.read_text()}")
            time.sleep(0.05)
        return result

    def close(self):
        os.kill(self.within, signal.SIGKILL)
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def iperf3(prefix, address, *words):
    """Gbit/s that came out at the far end of one stream; None where the stream was cut off."""
    done = subprocess.run([*prefix, "iperf3", "--client", address, "--port", "7000", "--json", *words], capture_output=True, text=True,
                          timeout=60, check=False)
    said = json.loads(done.stdout) if done.stdout else {}
    if done.returncode != 0 or "error" in said:
        note(f"iperf3 to {address}: exit {done.returncode}: {said.get('error', done.stderr.strip())}")
        return None
    return said["end"]["sum_received"]["bits_per_second"] / 1e9


def net(stand, rounds, smoke, direction):
    """How many times as much one TCP stream carries in four seconds as by the better of pasta and slirp4netns; MTU 1500 all round."""
    words = ["--time", "1" if smoke else "4", *(["--reverse"] if direction == "down" else [])]
    run("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "nowhere")
    run("ip", "link", "set", "nowhere", "up")
    run("ip", "link", "set", "uplink", "up")
    run("ip", "addr", "add", "192.0.2.2/24", "dev", "uplink")
    run("ip", "route", "add", "default", "via", "192.0.2.1")
    stand.server("iperf3", "--server", "--port", "7000", place=f"{STREAM_ADDRESS}:7000", log=stand.work / "serve.log")
    stand.resolve(STREAM)
    peers = {name: PeerNet(stand.work, name) for name in ("pasta", "slirp4netns")}
    try:
        for _ in range(rounds):
            ours = iperf3(["nsenter", f"--net={os.environ['STAND_GUEST']}"], STREAM_ADDRESS, *words)
            # Debian 12's pasta resets some long streams: what it did not carry to the end counts for nothing, thrice.
            took = {name: next((speed for _ in range(3) if (speed := iperf3(peer.prefix, peer.address, *words))), 0)
                    for name, peer in peers.items()}
            if not ours or not any(took.values()):
                sys.exit("egress: a stream was not carried to its end")
            note(f"net.{direction}, Gbit/s: " + ", ".join(f"{name} {speed:.2f}" for name, speed in {"ours": ours, **took}.items()))
            print(ours / max(took.values()), flush=True)
    finally:
        for peer in peers.values():
            peer.close()


FIGURES = {
    "egress.rps_vs_squid": (rps_vs_squid, "veth"),
    "egress.download_vs_squid": (download_vs_squid, "veth"),
    "egress.connect_vs_squid": (connect_vs_squid, "veth"),
    "egress.added_latency": (added_latency, "veth"),
    "protect.added_latency": (protection, "veth"),
    "egress.denied_reset": (denied_reset, "tap"),
    "egress.sse_delay": (sse_delay, "veth"),
    "egress.idle_flows": (idle_flows, "veth"),
    "net.up": (lambda *words: net(*words, "up"), "tap"),
    "net.down": (lambda *words: net(*words, "down"), "tap"),
}


def measure(wanted, rounds, smoke):
    """The figures among `wanted` that are measured here: medians of the rounds."""
    values = {}
    if "net.setup" in wanted:
        lines = run(PROGRAMS / "egress_stand", "setup", 3 if smoke else 41).split()
        values["net.setup"] = statistics.median(float(line) for line in lines)
    for name, (_, link) in FIGURES.items():
        if name not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="mvm-bench-") as folder:
            work = pathlib.Path(folder)
            work.chmod(0o755)
            certificate(work, "server", HOST, False)
            done = subprocess.run(
                [PROGRAMS / "egress_stand", link, work / "server.pem", f"name={HOST}={ADDRESS}", f"name={PLAIN}={PLAIN_ADDRESS}",
                 f"name={STREAM}={STREAM_ADDRESS}", f"endpoint=GET https://{HOST}/1k", f"endpoint=GET https://{HOST}/big",
                 f"endpoint=GET https://{HOST}/events/*",
                 f"name={MODEL}={ADDRESS}", f"protect={MODEL}",
                 *(f"endpoint=POST https://{host}/v1/chat/completions" for host in (HOST, MODEL)),
                 f"host={PLAIN}", f"host={STREAM}:7000", "--", sys.executable, __file__, "inside", name, str(rounds), str(int(smoke)),
                 folder],
                stdout=subprocess.PIPE, text=True, timeout=1800, check=True, env={**os.environ, "PATH": PATHS + ":" + os.environ["PATH"]})
        values[name] = statistics.median(float(line) for line in done.stdout.split())
    return values


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        inside = Stand(pathlib.Path(sys.argv[5]))
        try:
            FIGURES[sys.argv[2]][0](inside, int(sys.argv[3]), sys.argv[4] == "1")
        finally:
            inside.close()
    else:
        print(json.dumps(measure(sys.argv[1:], 1, True)))
