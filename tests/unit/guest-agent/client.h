#pragma once
// A host for the agent under test: starts `mvm-agent --serve-fd` and speaks the protocol to it over
// a socket pair. Waiting is by poll with a deadline; a test that meets the deadline fails.

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "mvm/proto/control.h"
#include "mvm/proto/copy.h"
#include "mvm/proto/credit.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/frame.h"
#include "mvm/sys/fd.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::guest {

enum class Trees { ByCgroup, ByScan };
enum class Lanes { No, Yes };

// A cgroup v2 directory that a test may make groups in; nothing where there is none.
std::optional<std::string> test_cgroup();

struct Outcome {
  std::string out;
  std::string err;
  Bytes data;  // of a get
  std::optional<uint32_t> pid;
  std::optional<uint32_t> lane;  // its port
  std::optional<proto::ErrorReply> error;
  std::optional<proto::ExecResult> result;
  std::optional<proto::CopyResult> copied;
  std::optional<proto::AgentInfo> info;
  std::chrono::milliseconds took{0};
};

class Client {
 public:
  static constexpr std::chrono::seconds kDeadline{60};

  explicit Client(Trees trees = Trees::ByScan,
                  std::optional<proto::Hello> greeting = proto::Hello{proto::kProtocolVersion,
                                                                      "client", "test"},
                  Lanes lanes = Lanes::No);
  ~Client();

  uint32_t request(ByteView payload);
  uint32_t start(const proto::ExecRequest& exec) { return request(exec.encode()); }
  void send(uint32_t stream, proto::FrameType type, ByteView payload = {});
  // Bulk data, waiting for credit as need be.
  void send_data(uint32_t stream, ByteView data);
  void signal(uint32_t stream, uint8_t number);
  void resize(uint32_t stream, proto::TerminalSize size);
  // Credit is given back as output arrives, unless this is off.
  void set_reading(uint32_t stream, bool on);

  // Handles frames until `done` holds; throws when the deadline passes first.
  void run_until(const std::function<bool()>& done);
  void wait_started(uint32_t stream);
  void wait_output(uint32_t stream, const std::string& text);
  Outcome finish(uint32_t stream);
  Outcome run(const proto::ExecRequest& exec) { return finish(start(exec)); }
  void ping();
  // Pings, and so lets the agent's loop turn, until `done` holds; throws when the deadline passes.
  void settle(const std::function<bool()>& done);
  // `sh -c script`
  Outcome shell(const std::string& script);

  const Outcome& outcome(uint32_t stream) { return streams_.at(stream).outcome; }
  const std::string& lanes() const { return lanes_.path(); }
  // Asks for a put's lane and connects to it.
  sys::Fd open_lane(uint32_t stream);
  bool ended(uint32_t stream) { return streams_.at(stream).ended; }
  std::optional<proto::Hello> hello() const { return hello_; }
  pid_t agent() const { return agent_.pid(); }
  // Closes our end; waits for the agent to end.
  sys::ExitStatus hang_up();
  // How the agent ended, if it does within `limit`.
  std::optional<sys::ExitStatus> agent_end(std::chrono::milliseconds limit) {
    return agent_.wait(limit);
  }
  void close_socket() { socket_.reset(); }
  bool connection_open() const { return open_; }
  int socket() const { return socket_.get(); }

 private:
  struct Stream {
    Outcome outcome;
    bool ended = false;
    bool reading = true;
    size_t withheld = 0;
    std::string verb;
    proto::SendWindow send;
    proto::ReceiveWindow receive;
    std::chrono::steady_clock::time_point began;
  };
  void handle(const proto::Frame& frame);
  void turn(std::chrono::milliseconds wait);
  void consume(uint32_t id, Stream& stream, size_t length);

  sys::Child agent_;
  sys::Fd socket_;
  std::string cgroup_;
  sys::TempDir lanes_;
  proto::FrameDecoder decoder_;
  std::optional<proto::Hello> hello_;
  std::map<uint32_t, Stream> streams_;
  uint32_t next_ = 1;
  bool open_ = true;
};

// sh -c SCRIPT
proto::ExecRequest shell_request(const std::string& script);
// Number of live processes whose command line contains `text`.
size_t count_processes(const std::string& text);
void kill_processes(const std::string& text);

}
