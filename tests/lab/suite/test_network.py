"""A sandbox's network card: what the guest finds, what reaches the gateway, and that nothing goes further."""
import contextlib
import http.server
import json
import os
import socket
import ssl
import struct
import subprocess
import tempfile
import threading

from harness import equal, eventually, expect, guest, has, mvm, ok, sandbox, shared

GUEST4, GATEWAY4 = "100.127.255.2", "100.127.255.1"
GUEST6, GATEWAY6 = "fd6d:766d::2", "fd6d:766d::1"

# Tells of each way how long the kernel took to say no, and what it said.
TRY_CONNECT = r"""
import errno, socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in host else socket.AF_INET
with socket.socket(family, socket.SOCK_STREAM) as s:
    s.settimeout(30)
    began = time.monotonic()
    try:
        s.connect((host, port))
        print("connected")
    except OSError as error:
        print(errno.errorcode.get(error.errno, error), "at once" if time.monotonic() - began < 5 else "late")
"""

# An ICMP echo of its own making, by a raw socket on the card: source MAC and IPv4 address as told.
PING = r"""
import socket, struct, sys
source_mac, source_ip, wait = bytes.fromhex(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
icmp = struct.pack("!BBHHH", 8, 0, 0, 7, 1) + b"mvm network test"
icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(icmp), 0, 0x4000, 64, 1, 0,
                 socket.inet_aton(source_ip), socket.inet_aton("100.127.255.1"))
ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
s.bind(("eth0", 0))
s.settimeout(wait)
s.send(bytes.fromhex("026d766d0001") + source_mac + b"\x08\x00" + ip + icmp)
try:
    while True:
        frame = s.recv(2048)
        if frame[23] == 1 and frame[34] == 0:
            print("answered")
            break
except TimeoutError:
    print("silence")
"""


def python(name, script, *words):
    done = mvm("exec", name, "--", "python3", "-c", script, *words)
    equal(done.code, 0, f"the script in the guest: {done}")
    return done.out.strip()


def ping(name, mac="026d766d0002", source=GUEST4, wait="30"):
    return python(name, PING, mac, source, wait)


def card_works(name):
    # Linux tells of a link up to a second late (linkwatch); it carries packets before that.
    eventually(lambda: guest(name, "cat /sys/class/net/eth0/operstate") == "up", "the link is up", seconds=5)
    equal(guest(name, "cat /sys/class/net/eth0/address"), "02:6d:76:6d:00:02")
    equal(guest(name, "cat /sys/class/net/eth0/mtu"), "65520")
    # 00..00 gateway flags: the default routes of both families lead to the gateway, and no other route leads out.
    routes = [line.split() for line in guest(name, "cat /proc/net/route").split("\n")[1:]]
    equal(sorted((r[0], r[1], r[2]) for r in routes),
          [("eth0", "00000000", "01FF7F64"), ("eth0", "00FF7F64", "00000000")], "IPv4 routes")
    routes6 = [line.split() for line in guest(name, "cat /proc/net/ipv6_route").split("\n")]
    gateway6 = "fd6d766d000000000000000000000001"
    expect(any(r[0] == "0" * 32 and r[1] == "00" and r[4] == gateway6 and r[9] == "eth0" for r in routes6), routes6)
    addresses6 = guest(name, "cat /proc/net/if_inet6")
    # Usable at once: 40 is tentative; 80 permanent.
    has(addresses6, "fd6d766d000000000000000000000002")
    expect(all("40" != line.split()[4] for line in addresses6.split("\n")), addresses6)
    has(guest(name, "cat /etc/resolv.conf"), f"nameserver {GATEWAY4}")
    equal(ping(name), "answered")
    for host in ("8.8.8.8", GATEWAY4, "169.254.169.254", "2606:4700::1111", GATEWAY6):
        equal(python(name, TRY_CONNECT, host, "443"), "ECONNREFUSED at once", host)


def test_card_and_gateway():
    """The guest finds its card set up for both families; the gateway answers pings, and all else is refused at once."""
    card_works(shared())


def test_spoofed_frames_are_dropped():
    """Frames from another card or another address never reach the namespace; the guest's own still do."""
    name = shared()
    equal(ping(name, mac="026d766d0009", wait="2"), "silence")
    equal(ping(name, source="100.127.255.3", wait="2"), "silence")
    equal(ping(name, source="127.0.0.1", wait="2"), "silence")
    equal(ping(name), "answered")


def test_without_network():
    """--no-network: no card, a connection fails at once, and who asks for rules is told that there is no network."""
    with sandbox("offline", "--no-network"):
        equal(guest("offline", "ls /sys/class/net | grep -v dummy | tr '\\n' ' '").split(), ["lo"])
        equal(python("offline", TRY_CONNECT, "8.8.8.8", "443"), "ENETUNREACH at once")
        has(ok("policy", "ls", "offline", "--effective").err, "offline has no network card")
        has(mvm("policy", "allow", "offline", "page.example").err, "no network")


def test_distribution_kernel():
    """The distribution's kernel has the card's driver as a module."""
    with sandbox("distro", "--kernel", os.environ["MVM_DISTRIBUTION_KERNEL"], "--boot-timeout", "180s", timeout=200):
        card_works("distro")
        ok("down", "distro")


PUBLIC = "93.184.216.34"  # stands for a host of the Internet: an address of the lab's own loopback


class Names(threading.Thread):
    """A DNS server for names below .example, each at PUBLIC; counts what it is asked."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.asked = set()

    def run(self):
        while True:
            query, client = self.socket.recvfrom(2048)
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
                at += 1 + query[at]
            kind = struct.unpack("!H", query[at + 1:at + 3])[0]
            self.asked.add(".".join(labels))
            answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + socket.inet_aton(PUBLIC) if kind == 1 else b""
            head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, 1 if answer else 0, 0, 0)
            self.socket.sendto(head + query[12:at + 5] + answer, client)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"x" * 1_000_000 if self.path == "/large" else f"{self.headers['Host']}{self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def internet():
    subprocess.run(["ip", "address", "add", PUBLIC + "/32", "dev", "lo"], check=True)
    server = http.server.ThreadingHTTPServer((PUBLIC, 80), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names = Names()
    names.start()
    try:
        yield names
    finally:
        server.shutdown()
        server.server_close()
        subprocess.run(["ip", "address", "del", PUBLIC + "/32", "dev", "lo"], check=True)


@contextlib.contextmanager
def authority(host, folder):
    """host.pem and host.key in the folder, by an authority that this machine, but for now no guest, trusts."""
    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority")
    openssl("req", "-x509", *new, "-keyout", "host.key", "-out", "host.pem", "-subj", "/CN=" + host, "-CA", "ca.pem", "-CAkey", "ca.key",
            "-addext", "subjectAltName=DNS:" + host, "-addext", "basicConstraints=critical,CA:FALSE")
    subprocess.run(["mount", "--bind", folder + "/ca.pem", "/etc/ssl/certs/ca-certificates.crt"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "/etc/ssl/certs/ca-certificates.crt"], check=True)


@contextlib.contextmanager
def certified(host, folder, handler=Page):
    """The same pages over TLS."""
    with authority(host, folder):
        server = http.server.ThreadingHTTPServer((PUBLIC, 443), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/host.pem", folder + "/host.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


FETCH = r"""
import sys, urllib.request
try:
    body = urllib.request.urlopen(sys.argv[1], timeout=60).read()
    print(len(body), body[:60].decode())
except OSError as error:
    print("failed:", getattr(error, "reason", error))
"""


def test_fetches_what_a_rule_names():
    """A guest fetches a page of a host that a rule names; other names are not resolved, and nobody outside hears of them."""
    with internet() as names, tempfile.TemporaryDirectory() as folder:
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nallow_hosts = ["page.example"]\nresolvers = ["127.0.0.1:{names.port}"]\n')
        with sandbox("web", "-f", manifest):
            equal(python("web", FETCH, "http://page.example/a?b=c"), "18 page.example/a?b=c")
            equal(python("web", FETCH, "http://page.example/large").split()[0], "1000000")
            has(python("web", FETCH, "http://other.example/"), "failed:")
            has(python("web", FETCH, "http://page.example:8080/"), "failed:")
            equal(names.asked, {"page.example"}, "names that left the host")
            # By its address alone nobody may use it, at any other port neither.
            equal(python("web", TRY_CONNECT, PUBLIC, "8080"), "ECONNREFUSED at once")
            shown = json.loads(ok("inspect", "web", "--json").out)["network"]
            equal(shown["allow_hosts"], ["page.example"])


FETCH_TLS = r"""
import ssl, sys, urllib.request
trust = ssl.create_default_context(cadata=sys.argv[2])
print(len(urllib.request.urlopen(sys.argv[1], timeout=60, context=trust).read()))
"""


def test_relays_what_no_rule_looks_into():
    """TLS to a host without routes is the server's own from end to end, byte for byte."""
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("page.example", folder):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nallow_hosts = ["page.example"]\nresolvers = ["127.0.0.1:{names.port}"]\n')
        with sandbox("relay", "-f", manifest), open(folder + "/ca.pem", encoding="utf-8") as authority:
            equal(python("relay", FETCH_TLS, "https://page.example/large", authority.read()), "1000000")


def test_inspects_what_a_route_names():
    """One path of a host is open, over TLS: the guest's programs trust the sandbox's own authority, and read why they are refused."""
    with internet() as names, tempfile.TemporaryDirectory() as folder, certified("page.example", folder):
        manifest = folder + "/mvm.toml"
        with open(manifest, "w", encoding="utf-8") as file:
            file.write(f'[network]\nresolvers = ["127.0.0.1:{names.port}"]\n'
                       '[[network.routes]]\nhost = "page.example"\n'
                       'rules = [{ method = "GET", path = "/open/**", outcome = "allow" }]\n')
        with sandbox("routes", "-f", manifest):
            equal(python("routes", FETCH, "https://page.example/open/a"), "19 page.example/open/a")
            equal(python("routes", FETCH, "https://page.example/shut"), "failed: Forbidden")
            has(guest("routes", "cat $SSL_CERT_FILE"), "This sandbox's own authority")
