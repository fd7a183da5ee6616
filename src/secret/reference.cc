#include "mvm/secret/reference.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/proto/secrets.h"
#include "mvm/secret/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"
#include "mvm/sys/socket.h"

namespace mvm::secret {
namespace {

// A value and the line end behind it.
constexpr size_t kMost = proto::kMaxSecretValue + 2;

[[noreturn]] void too_large(const std::string& what) {
  throw Error(Kind::Exhausted, what + " gives more than " + format_size(proto::kMaxSecretValue));
}

std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string file_path(std::string_view path, const Sources& sources) {
  if (path.starts_with("~/")) {
    const auto home = sources.variable("HOME");
    if (!home) throw Error(Kind::NotFound, "file:" + printable(path) + ": HOME is not set");
    return *home + std::string(path.substr(1));
  }
  return path.starts_with('/') ? std::string(path) : sources.directory + "/" + std::string(path);
}

std::string from_file(std::string_view given, const Sources& sources) {
  const std::string path = file_path(given, sources);
  // O_NONBLOCK: a FIFO that nobody writes to would be waited for.
  const auto file = sys::open_if_exists(path, O_RDONLY | O_NONBLOCK);
  if (!file) throw Error(Kind::NotFound, "there is no file " + printable(path));
  if (!sys::is_regular_file(file->get()))
    throw Error(Kind::Invalid, printable(path) + " is not a regular file");
  std::string text(kMost + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const size_t got =
        sys::pread_some(file->get(), std::as_writable_bytes(std::span(text)).subspan(size), size);
    if (got == 0) break;
    size += got;
  }
  if (size == text.size()) {
    wipe(text);
    too_large("the file " + printable(path));
  }
  text.resize(size);
  return without_line_end(std::move(text));
}

// keyctl(2) has no wrapper in the C library.
long keyctl(int operation, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  return ::syscall(SYS_keyctl, operation, a, b, c, d);
}

std::string from_keyring(const std::string& name) {
  const auto text_of = [](const char* text) { return reinterpret_cast<unsigned long>(text); };
  long key = -1;
  int why = ENOKEY;
  for (const int ring :
       {KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_SESSION_KEYRING, KEY_SPEC_USER_KEYRING}) {
    key = keyctl(KEYCTL_SEARCH, static_cast<unsigned long>(ring), text_of("user"),
                 text_of(name.c_str()), 0);
    if (key >= 0) break;
    if (errno != ENOKEY) why = errno;
  }
  const std::string what = "the key \"" + printable(name) + "\" of the kernel's keyrings";
  if (key < 0)
    throw Error(why == ENOKEY ? Kind::NotFound : Kind::Unavailable,
                what + ": " + sys::errno_text(why) +
                    " (`keyctl add user NAME VALUE @u` makes one of type user)");
  std::string text(kMost, '\0');
  const long size = keyctl(KEYCTL_READ, static_cast<unsigned long>(key),
                           reinterpret_cast<unsigned long>(text.data()), text.size(), 0);
  if (size < 0) throw Error(Kind::Denied, what + ": " + sys::errno_text(errno));
  if (static_cast<size_t>(size) > text.size()) too_large(what);
  text.resize(static_cast<size_t>(size));
  return text;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (char** entry = ::environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  return out;
}

// What a process prints before it closes its output, and at most so much; nothing when that takes
// too long.
std::optional<std::string> output_of(int fd, std::chrono::steady_clock::time_point until) {
  std::string text;
  text.reserve(kMost + 4096);
  while (text.size() <= kMost) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    const int found = left.count() <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left.count()));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return std::nullopt;
    std::array<std::byte, 4096> piece{};
    const auto got = sys::read_some(fd, piece);
    if (!got) continue;
    if (*got == 0) break;
    text += as_text(ByteView(piece).first(*got));
  }
  return text;
}

std::string from_command(const std::string& command, const Sources& sources) {
  const std::string what = "the command of the secret (" + printable(command, 60) + ")";
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  const sys::Fd nothing = sys::open_file("/dev/null", O_RDONLY);
  sys::SpawnOptions options;
  options.argv = {"/bin/sh", "-c", command};
  options.env = own_environment();
  options.fds = {{nothing.get(), 0}, {theirs.get(), 1}, {STDERR_FILENO, 2}};
  options.die_with_parent = true;
  options.new_session = true;  // no terminal to ask for anything, and one group to end
  options.directory = sources.directory;
  sys::Child child = sys::spawn(options);
  theirs.reset();
  const auto until = std::chrono::steady_clock::now() + sources.patience;
  const auto stop = [&] { static_cast<void>(::kill(-child.pid(), SIGKILL)), child.wait(); };
  auto text = output_of(ours.get(), until);
  if (!text) {
    stop();
    throw Error(Kind::Timeout,
                what + " did not end within " +
                    format_duration_ms(static_cast<uint64_t>(sources.patience.count())));
  }
  if (text->size() > kMost) {
    stop();
    wipe(*text);
    too_large(what);
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  const auto status = child.wait(std::max(left, std::chrono::milliseconds(1)));
  if (!status) stop();
  if (!status || status->code != 0 || status->signal != 0) {
    wipe(*text);
    throw Error(Kind::Unavailable,
                what + " failed: " + (status ? status->text() : "it did not end"));
  }
  return without_line_end(std::move(*text));
}

// A stored entry may itself be a reference; one that leads to another stored one is refused where
// it is set.
std::optional<std::string> from_store(const std::string& name, const Sources& sources) {
  StoredMap entries = sources.store.read();
  const auto found = entries.find(name);
  if (found == entries.end()) return std::nullopt;
  if (!found->second.from.empty() && !found->second.from.starts_with("stored:"))
    return look_up(name, found->second.from, sources);
  return found->second.value;
}

}

std::string look_up(const std::string& name, const std::string& from, const Sources& sources) {
  const size_t colon = from.find(':');
  const std::string kind = from.substr(0, std::min(colon, from.size()));
  const std::string rest = colon == from.npos ? "" : from.substr(colon + 1);
  if (kind == "file") return from_file(rest, sources);
  if (kind == "keyring") return from_keyring(rest);
  if (kind == "cmd") return from_command(rest, sources);
  if (kind != "env") {
    const std::string& stored = kind == "stored" ? rest : name;
    if (auto value = from_store(stored, sources)) return std::move(*value);
    if (kind == "stored")
      throw Error(Kind::NotFound, "nothing is stored as " + printable(stored) +
                                      "; `mvm secret set " + printable(stored) + "` asks for it");
  }
  const std::string variable = kind == "env" ? rest : name;
  auto value = sources.variable(variable);
  if (value) return std::move(*value);
  throw Error(Kind::NotFound,
              "the variable " + printable(variable) + " is not set" +
                  (kind == "env" ? ""
                                 : ", and nothing is stored under that name; `mvm secret set " +
                                       printable(name) + "` asks for the value"));
}

std::string absolute_reference(const std::string& from, const Sources& sources) {
  constexpr std::string_view kFile = "file:";
  if (!from.starts_with(kFile)) return from;
  return std::string(kFile) + file_path(std::string_view(from).substr(kFile.size()), sources);
}

}
