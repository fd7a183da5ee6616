#include "rig.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "../../../src/egress/sockets.h"

namespace mvm::egress {
namespace {

constexpr const char* kResolver = "198.41.0.4";

void write_file(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

void shell(const std::string& command) {
  // The test's own words, no one else's.
  if (std::system(command.c_str()) != 0)  // NOLINT
    throw Error(Kind::Internal, "failed: " + command);
}

// Root in namespaces of our own, for good. What is missing, when it cannot be.
std::optional<std::string> enter_namespaces() {
  static const std::optional<std::string> kComplaint = []() -> std::optional<std::string> {
    const auto user = std::to_string(::geteuid());
    const auto group = std::to_string(::getegid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS) != 0)
      return "no namespaces: " + sys::errno_text(errno);
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 " + user + " 1");
    write_file("/proc/self/gid_map", "0 " + group + " 1");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return "no mount namespace: " + sys::errno_text(errno);
    shell("ip link set lo up");
    // Servers may listen on any address.
    shell("ip addr add " + std::string(kResolver) + "/32 dev lo");
    ::signal(SIGPIPE, SIG_IGN);
    return std::nullopt;
  }();
  return kComplaint;
}

void offload(int tap) {
  sys::check(::ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6), "offloads");
}

// The guest's side of the link, with frames as the sandbox's TAP has them.
std::pair<sys::Fd, sys::Fd> make_guest() {
  const sys::Fd home(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  sys::check(::unshare(CLONE_NEWNET), "making the guest's namespace");
  sys::Fd name_space(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  sys::Fd tap = sys::open_file("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request{};
  std::string("eth0").copy(request.ifr_name, IFNAMSIZ);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
  sys::check(::ioctl(tap.get(), TUNSETIFF, &request), "making the guest's link");
  int header = 12;
  sys::check(::ioctl(tap.get(), TUNSETVNETHDRSZ, &header), "sizing its header");
  offload(tap.get());
  shell(
      "ip link set lo up; ip link set eth0 address 02:6d:76:6d:00:02 up && "
      "ip addr add 100.127.255.2/30 dev eth0 && ip route add default via 100.127.255.1 && "
      "ip addr add fd6d:766d::2/64 dev eth0 nodad && ip -6 route add default via fd6d:766d::1");
  sys::check(::setns(home.get(), CLONE_NEWNET), "going back");
  return {std::move(tap), std::move(name_space)};
}

}

Program::Program(loop::Loop& loop, std::vector<std::string> argv, int network_namespace,
                 const std::string& resolv_conf) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  sys::check(::pipe2(in.data(), O_CLOEXEC), "pipe");
  sys::check(::pipe2(out.data(), O_CLOEXEC), "pipe");
  sys::check(::pipe2(err.data(), O_CLOEXEC), "pipe");
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  const char* old_path = std::getenv("PATH");
  const std::string path = old_path != nullptr ? old_path : "";
  pid_ = sys::check(::fork(), "fork");
  if (pid_ == 0) {
    ::dup2(in[0], 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::signal(SIGPIPE, SIG_DFL);
    // The distribution's own programs before wrappers of them.
    ::setenv("PATH", ("/usr/bin:/bin:/usr/sbin:/sbin:" + path).c_str(), 1);
    if (network_namespace >= 0 &&
        (::setns(network_namespace, CLONE_NEWNET) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
         ::mount(resolv_conf.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr) != 0))
      ::_exit(126);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  input_ = sys::Fd(in[1]);
  out_ = sys::Fd(out[0]);
  err_ = sys::Fd(err[0]);
  pidfd_ = sys::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  out_watch_ = loop.watch(out_.get(), EPOLLIN,
                          [this](uint32_t) { collect(1, out_, out_watch_, exit_.out); });
  err_watch_ = loop.watch(err_.get(), EPOLLIN,
                          [this](uint32_t) { collect(2, err_, err_watch_, exit_.err); });
  pid_watch_ = loop.watch(pidfd_.get(), EPOLLIN, [this](uint32_t) { reap(); });
}

Program::~Program() {
  kill();
  if (pid_ > 0 && exit_.code < 0) ::waitpid(pid_, nullptr, 0);
}

void Program::kill() {
  if (exit_.code < 0) ::kill(pid_, SIGKILL);
}

void Program::collect(int, sys::Fd& fd, loop::Watch& watch, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<size_t>(got));
    return;
  }
  watch.reset();
  ended_ = exit_.code >= 0 && !out_watch_ && !err_watch_;
}

void Program::reap() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  exit_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  pid_watch_.reset();
  ended_ = !out_watch_ && !err_watch_;
}

void EgressTest::SetUp() {
  if (const auto complaint = enter_namespaces()) GTEST_SKIP() << *complaint;
  try {
    network_ = net::make_guest_network({}, 1500);
  } catch (const Error& error) {
    if (error.kind() != Kind::Unsupported) throw;
    GTEST_SKIP() << error.message();
  }
  offload(network_.tap.get());
  std::tie(guest_tap_, guest_namespace_) = make_guest();
  std::string pattern = "/tmp/mvm-egress-XXXXXX";
  directory_ = ::mkdtemp(pattern.data());
  resolv_conf_ = file("resolv.conf", "nameserver 100.127.255.1\n");
  frame_.resize(70'000);
  to_guest_ = loop_.watch(network_.tap.get(), EPOLLIN,
                          [this](uint32_t) { move_frames(network_.tap.get(), guest_tap_.get()); });
  from_guest_ = loop_.watch(guest_tap_.get(), EPOLLIN, [this](uint32_t) {
    move_frames(guest_tap_.get(), network_.tap.get());
  });
  resolver_.listen(kResolver);
  settings_.resolvers = {{ip(kResolver), 53}};
}

void EgressTest::TearDown() {
  servers_.clear();
  proxy_.reset();
  if (!directory_.empty()) shell("rm -rf " + directory_);
}

void EgressTest::start_proxy() {
  net::GuestNetwork network;
  network.tcp = network_.tcp.duplicate();
  network.dns_tcp = network_.dns_tcp.duplicate();
  network.dns_udp = network_.dns_udp.duplicate();
  network.pins = network_.pins.duplicate();
  network.refused = network_.refused.duplicate();
  proxy_ =
      std::make_unique<Proxy>(loop_, std::move(network), settings_, [this](const Event& event) {
        events_.push_back(event);
        return recordable_ && (!sink_ || sink_(event));
      });
}

void EgressTest::move_frames(int from, int to) {
  for (int i = 0; i < 64; ++i) {
    const ssize_t got = ::read(from, frame_.data(), frame_.size());
    if (got <= 0) return;
    // A frame that finds no room is lost, as on any link.
    static_cast<void>(!::write(to, frame_.data(), static_cast<size_t>(got)));
  }
}

bool EgressTest::eventually(const std::function<bool()>& condition) {
  const auto deadline = loop::Clock::now() + kPatience;
  while (!condition()) {
    if (loop::Clock::now() > deadline) return false;
    loop_.run_once(std::chrono::milliseconds(100));
  }
  return true;
}

std::unique_ptr<Program> EgressTest::start_guest(std::vector<std::string> argv) {
  return std::make_unique<Program>(loop_, std::move(argv), guest_namespace_.get(), resolv_conf_);
}

Program::Exit EgressTest::guest(std::vector<std::string> argv) {
  const auto program = start_guest(std::move(argv));
  program->end_input();
  if (!eventually([&] { return program->ended(); })) ADD_FAILURE() << "a client does not end";
  return program->exit();
}

Program& EgressTest::serve(std::vector<std::string> argv, const Endpoint& address) {
  Program& server =
      *servers_.emplace_back(std::make_unique<Program>(loop_, std::move(argv), -1, ""));
  const bool up = eventually([&] {
    if (server.ended()) throw Error(Kind::Internal, "server: " + server.exit().err);
    const sys::Fd probe = open_socket(address.address, SOCK_STREAM).value();
    sys::set_nonblocking(probe.get(), false);
    const SocketAddress to(address);
    return ::connect(probe.get(), to.get(), to.length) == 0;
  });
  EXPECT_TRUE(up) << "a server does not listen";
  return server;
}

Program& EgressTest::serve_python(const std::string& code, const Endpoint& address) {
  return serve({"python3", "-u", "-c", code}, address);
}

void EgressTest::own_address(std::string_view address) {
  const bool v4 = ip(address).is_v4();
  shell("ip addr replace " + std::string(address) + (v4 ? "/32" : "/128") + " dev lo" +
        (v4 ? "" : " nodad"));
}

std::vector<std::string> EgressTest::told() const {
  std::vector<std::string> lines;
  for (const Event& event : events_) {
    std::string line(event_word(event.kind));
    line += event.outcome == policy::Outcome::Allow ? " allow "
            : event.outcome == policy::Outcome::Ask ? " ask "
                                                    : " deny ";
    line += policy::reason_word(event.reason);
    if (event.audited) line += " audited";
    if (!event.method.empty()) line += ' ' + event.method;
    if (!event.host.empty()) line += ' ' + event.host;
    if (event.address) line += ' ' + event.address->text();
    if (event.port != 0) line += ' ' + std::to_string(event.port);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Event> EgressTest::events_of(EventKind kind) const {
  std::vector<Event> chosen;
  std::ranges::copy_if(events_, std::back_inserter(chosen),
                       [&](const Event& event) { return event.kind == kind; });
  return chosen;
}

std::string EgressTest::file(const std::string& file_name, const std::string& text) const {
  const std::string path = directory_ + "/" + file_name;
  write_file(path, text);
  return path;
}

std::string EgressTest::certificate(const std::string& host) {
  const std::string path = directory_ + "/" + host + ".pem";
  shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
        host + " -addext subjectAltName=DNS:" + host + " -keyout " + path + ".key -out " + path +
        " 2>/dev/null");
  return path;
}

}
