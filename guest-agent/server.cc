#include "server.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/proto/control.h"
#include "mvm/proto/copy.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "decoded.h"
#include "files.h"
#include "forward.h"
#include "get.h"
#include "init.h"
#include "lane.h"
#include "metrics.h"
#include "trust.h"
#include "version.h"

namespace mvm::guest {

Server::Server(loop::Loop& loop, Options options)
    : loop_(&loop),
      options_(std::move(options)),
      gate_(options_.profile),
      reaper_(loop),
      trees_(options_.cgroups, options_.processes_each),
      commands_{loop, reaper_, trees_, Lingering(loop), {}, {}, {}} {
  // A host or a command that stops reading is an error code, not an end.
  ::signal(SIGPIPE, SIG_IGN);
  // A connection's worth of commands needs more descriptors than one command is given by default.
  sys::check(::getrlimit(RLIMIT_NOFILE, &commands_.open_files), "reading the limit of open files");
  rlimit own = commands_.open_files;
  own.rlim_cur = own.rlim_max;
  sys::check(::setrlimit(RLIMIT_NOFILE, &own), "raising the limit of open files");
  reaper_.after_each([this] { after_reaping(); });
}

Server::~Server() = default;

// ---- connections ------------------------------------------------------------------------------

void Server::serve(sys::Fd socket) {
  if (connections_.size() >= kMaxConnections) return;
  Connection::Handler handler{
      [this](Channel& channel, std::string_view verb, ByteView payload) {
        return open(channel, verb, payload);
      },
      [this](std::vector<std::unique_ptr<StreamSlot>> slots) { adopt(std::move(slots)); },
      [this](Connection& connection) { closed(connection); }};
  connections_.push_back(
      std::make_unique<Connection>(*loop_, std::move(socket), std::move(handler)));
}

void Server::adopt(std::vector<std::unique_ptr<StreamSlot>> slots) {
  for (auto& slot : slots) {
    StreamSlot& kept = *orphans_.emplace_back(std::move(slot));
    kept.channel.when_ended([this] {
      if (!sweep_) sweep_ = loop_->after(std::chrono::milliseconds(0), [this] { sweep_orphans(); });
    });
    kept.channel.guard([&] { kept.stream->on_lost(); });
  }
}

void Server::closed(Connection& connection) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& entry) { return entry.get() == &connection; });
  MVM_ASSERT(found != connections_.end());
  connections_.erase(found);
  report_idle();
}

void Server::sweep_orphans() {
  sweep_.reset();
  std::erase_if(orphans_, [](const auto& slot) { return slot->channel.ended(); });
  report_idle();
}

void Server::report_idle() {
  if (connections_.empty() && orphans_.empty() && options_.idle) options_.idle();
}

void Server::after_reaping() {
  // A copy: what on_reaped() leads to may end commands, though it destroys none.
  const std::vector<Exec*> running = commands_.running;
  for (Exec* command : running) command->on_reaped();
  trees_.sweep();
  if (options_.reaped) options_.reaped();
}

void Server::ask_commands_to_end(int signal) {
  for (Exec* command : commands_.running) command->ask_to_end(signal);
}

bool Server::has_commands() const {
  return std::any_of(commands_.running.begin(), commands_.running.end(),
                     [](const Exec* command) { return command->leads(); });
}

void Server::flush() {
  for (const auto& connection : connections_) connection->flush();
}

// ---- vsock ------------------------------------------------------------------------------------

static sys::Fd vsock_socket() {
  return sys::Fd(sys::check(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                            "making a vsock socket"));
}

static sockaddr_vm vsock_address(uint32_t cid, uint32_t port) {
  sockaddr_vm address{};
  address.svm_family = AF_VSOCK;
  address.svm_cid = cid;
  address.svm_port = port;
  return address;
}

sys::Fd listen_vsock(uint32_t port) {
  sys::Fd fd = vsock_socket();
  const sockaddr_vm address = vsock_address(VMADDR_CID_ANY, port);
  // The socket calls take the generic type by contract.
  sys::check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
             "binding vsock port " + std::to_string(port));
  sys::check(::listen(fd.get(), static_cast<int>(kMaxConnections)), "listening on vsock");
  return fd;
}

std::optional<sys::Fd> call_host(uint32_t port) {
  sys::Fd fd = vsock_socket();
  // The host's processes answer, and those may have to wait for a busy host's processors: as long
  // as a start may take. One that gives up earlier ends a sandbox that has just been accepted.
  timeval limit{30, 0};
  ::setsockopt(fd.get(), AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &limit, sizeof limit);
  const int flags = ::fcntl(fd.get(), F_GETFL);
  ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  const sockaddr_vm address = vsock_address(VMADDR_CID_HOST, port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return std::nullopt;
  return fd;
}

void Server::listen(sys::Fd listener) {
  listener_ = std::move(listener);
  accepting_ = loop_->watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept(); });
}

void Server::accept() {
  for (bool drained = false; !drained;)
    if (sys::Fd socket = accept_host(listener_.get(), drained)) {
      try {
        serve(std::move(socket));
      } catch (const Error&) {
        drained = true;  // whoever called hears that this one was dropped
      }
    }
}

// ---- verbs ------------------------------------------------------------------------------------

void Server::info(Channel& channel) {
  utsname system{};
  ::uname(&system);
  struct sysinfo memory{};
  ::sysinfo(&memory);
  timespec uptime{};
  ::clock_gettime(CLOCK_BOOTTIME, &uptime);
  proto::AgentInfo info;
  info.software = kAgentVersion;
  info.kernel = system.release;
  info.uptime_ms =
      static_cast<uint64_t>(uptime.tv_sec) * 1000 + static_cast<uint64_t>(uptime.tv_nsec) / 1000000;
  info.memory_total = static_cast<uint64_t>(memory.totalram) * memory.mem_unit;
  info.memory_available =
      available_memory().value_or(static_cast<uint64_t>(memory.freeram) * memory.mem_unit);
  info.commands = static_cast<uint32_t>(commands_.running.size());
  channel.end(proto::encode_ok(info.encode()));
}

static void set_clock(uint64_t unix_nanoseconds) {
  timespec now{};
  now.tv_sec = static_cast<time_t>(unix_nanoseconds / 1000000000);
  now.tv_nsec = static_cast<long>(unix_nanoseconds % 1000000000);
  sys::check(::clock_settime(CLOCK_REALTIME, &now), "setting the clock");
}

// From the sandbox process, before it passes on anybody's request; whoever comes later is refused.
// Nobody reads the answer, so what goes wrong is told on the console too.
void Server::trust(const proto::TrustRequest& request) {
  if (std::exchange(trusts_, true))
    throw Error(Kind::Conflict, "the sandbox's authority is known already");
  try {
    commands_.common = trust_authority(request.authority, "", request.files);
  } catch (const Error& error) {
    say("trusting the sandbox's authority: " + error.message());
    throw;
  }
}

std::unique_ptr<Stream> Server::open(Channel& channel, std::string_view verb, ByteView payload) {
  if (const auto refusal = gate_.refuse(verb)) throw Error(refusal->kind, refusal->message);
  if (verb == proto::kExecVerb)
    return std::make_unique<Exec>(channel, commands_, decoded<proto::ExecRequest>(payload));
  if (verb == proto::kPutVerb)
    return std::make_unique<Put>(*loop_, channel, decoded<proto::PutRequest>(payload),
                                 options_.copies);
  if (verb == proto::kGetVerb)
    return std::make_unique<Get>(channel, decoded<proto::GetRequest>(payload));
  if (verb == proto::kTcpVerb)
    return std::make_unique<Forward>(*loop_, channel, decoded<proto::TcpRequest>(payload));
  if (verb.starts_with(kFileVerbPrefix)) return open_file_verb(*loop_, channel, verb, payload);
  if (verb == proto::kPingVerb) {
    channel.end(proto::encode_ok());
  } else if (verb == proto::kInfoVerb) {
    info(channel);
  } else if (verb == proto::kMetricsVerb) {
    proto::Metrics metrics = collect_metrics(options_.cgroups);
    metrics.commands = commands_.running.size();
    channel.end(proto::encode_ok(metrics.encode()));
  } else if (verb == proto::kTrustVerb) {
    trust(decoded<proto::TrustRequest>(payload));
    channel.end(proto::encode_ok());
  } else if (verb == proto::kSyncTimeVerb) {
    set_clock(decoded<proto::SyncTimeRequest>(payload).unix_nanoseconds);
    channel.end(proto::encode_ok());
  } else if (verb == proto::kShutdownVerb) {
    const auto request = decoded<proto::ShutdownRequest>(payload);
    channel.end(proto::encode_ok());
    loop_->post([this, request] { options_.shutdown(request); });
  } else {
    throw Error(Kind::Unsupported, "the agent does not know the verb '" + printable(verb) + "'");
  }
  return nullptr;
}

}
