// The daemon starts on demand: whoever needs it and finds nobody at its socket takes the start
// lock, looks again, and spawns it. The new daemon holds one end of a pipe and closes it when its
// socket accepts, or by ending; so the caller waits for the event, not for some time.

#include "daemon_link.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

namespace mvm::cli {
namespace {

constexpr std::chrono::milliseconds kStartTimeout{15'000};
constexpr size_t kLogTail = 2048;  // bytes of the log shown when it does not come up
constexpr int kReadyFd = 3;

// Blocks until whoever is starting the daemon has finished.
sys::Fd lock_start(const store::Paths& paths) {
  const std::string path = paths.runtime() + "/start.lock";
  sys::Fd fd = sys::open_own_file(path, O_RDWR | O_CREAT);
  while (::flock(fd.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw SystemError(errno, "locking " + path);
  return fd;
}

std::string end_of_log(const std::string& path, uint64_t from) {
  const auto file = sys::open_if_exists(path, O_RDONLY | O_NOFOLLOW);
  if (!file) return "";
  const uint64_t size = sys::file_size(file->get());
  if (size > from + kLogTail) from = size - kLogTail;
  std::array<char, kLogTail> buffer{};
  const ssize_t length =
      ::pread(file->get(), buffer.data(), buffer.size(), static_cast<off_t>(from));
  if (length <= 0) return "";
  std::string out;
  for (const auto line : split({buffer.data(), static_cast<size_t>(length)}, '\n'))
    if (!line.empty()) out += "\n  " + printable(line);
  return out;
}

struct Pipe {
  sys::Fd read;
  sys::Fd write;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  sys::check(::pipe2(ends.data(), O_CLOEXEC), "making a pipe");
  return {sys::Fd(ends[0]), sys::Fd(ends[1])};
}

enum class Started { Serves, Ended, TimedOut };

Started wait_ready(const sys::Fd& ready, const sys::Child& child) {
  const auto deadline = std::chrono::steady_clock::now() + kStartTimeout;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Started::TimedOut;
    std::array<pollfd, 2> entries{pollfd{ready.get(), POLLIN, 0}, pollfd{child.pidfd(), POLLIN, 0}};
    if (::poll(entries.data(), entries.size(), static_cast<int>(left.count())) < 0) {
      if (errno == EINTR) continue;
      throw SystemError(errno, "waiting for the daemon");
    }
    if (entries[1].revents != 0) return Started::Ended;
    if (entries[0].revents != 0) return Started::Serves;
  }
}

}

std::unique_ptr<api::Client> find_daemon(const store::Paths& paths) {
  return api::Client::connect(paths.daemon_socket());
}

std::unique_ptr<api::Client> find_or_start_daemon(const store::Paths& paths) {
  if (auto client = find_daemon(paths)) return client;
  paths.ensure_runtime();
  paths.ensure_data();
  const sys::Fd lock = lock_start(paths);
  if (auto client = find_daemon(paths)) return client;  // somebody was quicker

  const std::string log_path = paths.daemon_log();
  const sys::Fd log = sys::open_own_file(log_path, O_WRONLY | O_CREAT | O_APPEND);
  const uint64_t log_start = sys::file_size(log.get());
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
  Pipe pipe = make_pipe();

  sys::SpawnOptions options;
  options.argv = {sys::own_executable(), "daemon", "--ready-fd", std::to_string(kReadyFd)};
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.fds = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}, {pipe.write.get(), kReadyFd}};
  options.new_session = true;  // a Ctrl-C here is not meant for it
  options.directory = "/";
  const sys::Child child = while_doing("starting the daemon", [&] { return sys::spawn(options); });
  pipe.write.reset();

  const Started started = wait_ready(pipe.read, child);
  if (started != Started::TimedOut)
    if (auto client = find_daemon(paths)) return client;
  const std::string_view what =
      started == Started::TimedOut ? "the daemon does not answer" : "the daemon ended at its start";
  throw Error(Kind::Unavailable,
              std::string(what) + "; its log is " + log_path + end_of_log(log_path, log_start));
}

}
