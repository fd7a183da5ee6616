#include "client.h"

#include <algorithm>
#include <stdexcept>

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::guest {

using proto::FrameType;
using Clock = std::chrono::steady_clock;

std::optional<std::string> test_cgroup() {
  const std::string mounts = sys::read_text_file("/proc/self/mounts", 1 << 20);
  for (const auto line : split(mounts, '\n')) {
    const auto field = split(line, ' ');
    if (field.size() < 3 || field[2] != "cgroup2") continue;
    const std::string path = std::string(field[1]) + "/mvm-test-" + std::to_string(::getpid());
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) continue;
    if (!sys::exists(path + "/cgroup.kill")) continue;
    return path;
  }
  return std::nullopt;
}

Client::Client(Trees trees, std::optional<proto::Hello> greeting, Lanes lanes) {
  ::signal(SIGPIPE, SIG_IGN);  // an agent that hangs up is an error to catch
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  sys::SpawnOptions options;
  options.argv = {MVM_AGENT, "--serve-fd", "3"};
  if (trees == Trees::ByCgroup) {
    cgroup_ = test_cgroup().value();
    options.argv.insert(options.argv.end(), {"--root-cgroup", cgroup_});
  }
  if (lanes == Lanes::Yes) options.argv.insert(options.argv.end(), {"--lanes", lanes_.path()});
  options.env = {"PATH=/usr/bin:/bin"};
  options.fds = {{theirs.get(), 3}, {0, 0}, {1, 1}, {2, 2}};
  agent_ = sys::spawn(options);
  socket_ = std::move(ours);
  if (greeting) send(proto::kConnectionStream, FrameType::Hello, greeting->encode());
}

Client::~Client() {
  socket_.reset();
  if (agent_) {
    if (!agent_.wait(std::chrono::seconds(20))) agent_.signal(SIGKILL);
    if (agent_) agent_.wait();
  }
  if (!cgroup_.empty()) ::rmdir(cgroup_.c_str());
}

sys::ExitStatus Client::hang_up() {
  socket_.reset();
  const auto status = agent_.wait(kDeadline);
  if (!status) throw std::runtime_error("the agent goes on after its connection was lost");
  return *status;
}

uint32_t Client::request(ByteView payload) {
  const uint32_t id = next_++;
  auto& stream = streams_[id];
  stream.began = Clock::now();
  stream.verb = proto::request_verb(payload).value_or("");
  send(id, FrameType::Request, payload);
  return id;
}

void Client::send(uint32_t stream, FrameType type, ByteView payload) {
  Bytes frame;
  proto::append_frame(frame, stream, type, payload);
  sys::write_all(socket_.get(), frame);
}

void Client::send_data(uint32_t id, ByteView data) {
  auto& stream = streams_.at(id);
  while (!data.empty()) {
    run_until([&] { return stream.send.available() > 0 || stream.ended; });
    if (stream.ended) return;
    const size_t length = std::min({data.size(), stream.send.available(), proto::kMaxPayload});
    stream.send.spend(length);
    send(id, FrameType::Data, data.first(length));
    data = data.subspan(length);
  }
}

sys::Fd Client::open_lane(uint32_t stream) {
  send(stream, FrameType::Eof);
  run_until([&] { return outcome(stream).lane.has_value() || ended(stream); });
  const uint32_t port = outcome(stream).lane.value();
  return std::move(*sys::connect_unix(lanes_.path() + "/" + std::to_string(port)));
}

void Client::signal(uint32_t stream, uint8_t number) {
  Bytes frame;
  proto::append_signal(frame, stream, number);
  sys::write_all(socket_.get(), frame);
}

void Client::resize(uint32_t stream, proto::TerminalSize size) {
  Bytes frame;
  proto::append_resize(frame, stream, size);
  sys::write_all(socket_.get(), frame);
}

void Client::set_reading(uint32_t id, bool on) {
  auto& stream = streams_.at(id);
  stream.reading = on;
  if (on && stream.withheld > 0) consume(id, stream, std::exchange(stream.withheld, 0));
}

void Client::consume(uint32_t id, Stream& stream, size_t length) {
  if (!stream.reading) {
    stream.withheld += length;
    return;
  }
  const auto credit = stream.receive.consume(length);
  if (!credit || stream.ended) return;
  Bytes frame;
  proto::append_window(frame, id, *credit);
  sys::write_all(socket_.get(), frame);
}

void Client::handle(const proto::Frame& frame) {
  if (frame.stream == proto::kConnectionStream) {
    hello_ = proto::Hello::decode(frame.payload);
    return;
  }
  auto& stream = streams_.at(frame.stream);
  if (stream.ended) throw std::runtime_error("a frame after End");
  Outcome& outcome = stream.outcome;
  if (proto::is_bulk(frame.type) && !stream.receive.receive(frame.payload.size()))
    throw std::runtime_error("the agent overran its window");
  switch (frame.type) {
    case FrameType::Stdout:
      outcome.out += as_text(frame.payload);
      consume(frame.stream, stream, frame.payload.size());
      break;
    case FrameType::Stderr:
      outcome.err += as_text(frame.payload);
      consume(frame.stream, stream, frame.payload.size());
      break;
    case FrameType::Data:
      outcome.data.insert(outcome.data.end(), frame.payload.begin(), frame.payload.end());
      consume(frame.stream, stream, frame.payload.size());
      break;
    case FrameType::Window:
      if (!stream.send.grant(proto::decode_window(frame.payload).value()))
        throw std::runtime_error("the agent gave back more credit than it took");
      break;
    case FrameType::Event:
      if (stream.verb == proto::kPutVerb)
        outcome.lane = proto::LaneOpened::decode(frame.payload).value().port;
      else
        outcome.pid = proto::ExecStarted::decode(frame.payload).value().pid;
      break;
    case FrameType::End: {
      const auto end = proto::End::decode(frame.payload).value();
      outcome.error = end.error;
      if (end.error) {
      } else if (stream.verb == proto::kExecVerb) {
        outcome.result = proto::ExecResult::decode(end.result);
      } else if (stream.verb == proto::kInfoVerb) {
        outcome.info = proto::AgentInfo::decode(end.result);
      } else {
        outcome.copied = proto::CopyResult::decode(end.result);
      }
      outcome.took =
          std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - stream.began);
      stream.ended = true;
      break;
    }
    default:
      throw std::runtime_error("a frame that servers do not send");
  }
}

void Client::turn(std::chrono::milliseconds wait) {
  pollfd entry{socket_.get(), POLLIN, 0};
  if (::poll(&entry, 1, static_cast<int>(wait.count())) <= 0) return;
  const ssize_t got = ::read(socket_.get(), decoder_.space().data(), decoder_.space().size());
  if (got <= 0) {
    open_ = false;
    return;
  }
  decoder_.commit(static_cast<size_t>(got));
  while (const auto frame = decoder_.next()) handle(*frame);
  if (decoder_.fault()) throw std::runtime_error("the agent broke the framing");
}

void Client::run_until(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + kDeadline;
  while (!done()) {
    if (!open_) throw std::runtime_error("the agent closed the connection");
    if (Clock::now() > deadline) throw std::runtime_error("the agent did not answer in time");
    turn(std::chrono::milliseconds(100));
  }
}

void Client::wait_started(uint32_t stream) {
  run_until([&] { return outcome(stream).pid.has_value() || ended(stream); });
}

void Client::wait_output(uint32_t stream, const std::string& text) {
  run_until([&] { return outcome(stream).out.find(text) != std::string::npos || ended(stream); });
}

Outcome Client::finish(uint32_t stream) {
  run_until([&] { return ended(stream); });
  return outcome(stream);
}

void Client::ping() { finish(request(proto::encode_request(proto::kPingVerb))); }

void Client::settle(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + kDeadline;
  while (!done()) {
    if (Clock::now() > deadline) throw std::runtime_error("the agent did not settle in time");
    ping();
  }
}

Outcome Client::shell(const std::string& script) { return run(shell_request(script)); }

proto::ExecRequest shell_request(const std::string& script) {
  proto::ExecRequest request;
  request.argv = {"sh", "-c", script};
  return request;
}

static std::vector<pid_t> find_processes(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& name : sys::list_directory("/proc")) {
    const auto pid = parse_u64(name);
    if (!pid || static_cast<pid_t>(*pid) == ::getpid()) continue;
    try {
      const auto line = sys::read_text_file("/proc/" + name + "/cmdline", 1 << 20);
      if (line.find(text) != std::string::npos) found.push_back(static_cast<pid_t>(*pid));
    } catch (const Error&) {
      // It ended meanwhile.
    }
  }
  return found;
}

size_t count_processes(const std::string& text) { return find_processes(text).size(); }

void kill_processes(const std::string& text) {
  for (const pid_t pid : find_processes(text)) ::kill(pid, SIGKILL);
}

}
