#include "package_tools.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <span>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/process.h"

#include "package_managers.h"

namespace mvm::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Format = std::vector<std::string> (*)(std::string_view);

constexpr std::chrono::hours kKept{24};
constexpr std::chrono::minutes kKeptCutOff{10};
constexpr size_t kMaxKept = 256 * 1024;

std::vector<std::string> npm_urls(std::string_view text) {
  std::vector<std::string> urls;
  for (const std::string_view line : split(text, '\n')) urls.emplace_back(line);
  return urls;
}

struct Tool {
  Manager manager;
  std::vector<std::string> words;
  Format format;
};

const std::array<Tool, 4>& tools() {
  static const std::array<Tool, 4> all{{
      {Manager::Npm, {"npm", "config", "get", "registry"}, npm_urls},
      {Manager::Pip, {"pip", "config", "list"}, pip_config_urls},
      {Manager::Cargo, {"cargo", "-Zunstable-options", "config", "get"}, cargo_tool_urls},
      {Manager::Go, {"go", "env", "GOPROXY", "GOSUMDB"}, go_env_tool_urls},
  }};
  return all;
}

// What a tool needs to find itself and its user's settings, and nothing that is a secret.
constexpr std::string_view kVariables[] = {
    "PATH",
    "HOME",
    "USER",
    "XDG_CONFIG_HOME",
    "NPM_CONFIG_USERCONFIG",
    "NPM_CONFIG_GLOBALCONFIG",
    "NPM_CONFIG_PREFIX",
    "PIP_CONFIG_FILE",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOENV",
    "GOROOT",
    "GOPATH",
};

std::vector<std::string> environment_of(const Variable& variable) {
  // Go would fetch another version of itself where a module asks for one.
  std::vector<std::string> out{"LANG=C", "GOTOOLCHAIN=local", "NO_UPDATE_NOTIFIER=1",
                               "PIP_DISABLE_PIP_VERSION_CHECK=1"};
  for (const std::string_view name : kVariables)
    if (const auto value = variable(name)) out.push_back(std::string(name) + "=" + *value);
  return out;
}

std::optional<std::string> find_tool(const Variable& variable, const std::string& name) {
  const std::string path = variable("PATH").value_or("");
  for (const std::string_view folder : split(path, ':')) {
    if (!folder.starts_with('/')) continue;
    std::string file = std::string(folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

// One that runs, and what it has said so far. Gone with this, and with it what it has started.
class Asked {
 public:
  Asked(const Tool& tool, const std::string& program, const Variable& variable)
      : format_(tool.format) {
    std::array<int, 2> ends{};
    sys::check(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), "making a pipe");
    output_ = sys::Fd(ends[0]);
    const sys::Fd theirs(ends[1]);
    const sys::Fd nothing = sys::open_file("/dev/null", O_RDWR);
    sys::SpawnOptions options;
    options.argv = tool.words;
    options.argv.front() = program;
    options.env = environment_of(variable);
    options.fds = {{nothing.get(), 0}, {theirs.get(), 1}, {nothing.get(), 2}};
    options.new_session = true;
    options.die_with_parent = true;
    const std::string home = variable("HOME").value_or("/");
    options.directory = home.starts_with('/') ? home : "/";
    child_ = sys::spawn(options);
  }
  ~Asked() {
    if (!child_) return;
    ::kill(-child_.pid(), SIGKILL);
    child_.signal(SIGKILL);
    child_.wait();
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  Asked(Asked&& other) noexcept = default;
  Asked& operator=(Asked&&) = delete;

  int fd() const { return output_.get(); }
  bool whole() const { return whole_; }
  // Reads what there is.
  void read() {
    std::array<char, 8192> buffer;
    while (true) {
      const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) {
        whole_ = got == 0;
        return output_.reset();
      }
      if (text_.size() + static_cast<size_t>(got) > kMaxToolOutput) return output_.reset();
      text_.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  // Of one that failed: nothing, whatever it said.
  std::vector<std::string> urls() {
    if (!whole_) return {};
    const auto status = child_.wait(std::chrono::milliseconds(100));
    if (!status) return {};
    child_ = {};
    if (*status != sys::ExitStatus{}) return {};
    return format_(text_);
  }

 private:
  Format format_;
  sys::Child child_;
  sys::Fd output_;
  std::string text_;
  bool whole_ = false;
};

void listen(std::vector<Asked>& asked, Clock::time_point until) {
  while (true) {
    std::vector<pollfd> waiting;
    for (const Asked& one : asked)
      if (one.fd() >= 0) waiting.push_back({one.fd(), POLLIN, 0});
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (waiting.empty() || left.count() <= 0) return;
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0 &&
        errno != EINTR)
      return;
    for (Asked& one : asked)
      if (one.fd() >= 0) one.read();
  }
}

}

std::vector<std::string> pip_config_urls(std::string_view text) {
  std::vector<std::string> urls;
  // global.index-url='https://mirror.example/simple'; lines of a value are joined by "\n".
  for (const std::string_view line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string_view name = line.substr(0, equals);
    if (!name.ends_with(".index-url") && !name.ends_with(".extra-index-url")) continue;
    std::string value(line.substr(equals + 1));
    std::erase_if(value, [](char c) { return c == '\'' || c == '"' || c == '\r'; });
    for (size_t at = 0; (at = value.find("\\n", at)) != value.npos;) value.replace(at, 2, " ");
    for (const std::string_view url : split(value, ' ')) urls.emplace_back(url);
  }
  return urls;
}

// source.mirror.registry = "https://…"
std::vector<std::string> cargo_tool_urls(std::string_view text) {
  std::string plain;
  for (const std::string_view line : split(text, '\n')) {
    const size_t dot = line.substr(0, line.find('=')).rfind('.');
    plain += std::string(line.substr(dot == line.npos ? 0 : dot + 1)) + "\n";
  }
  return cargo_config_urls(plain);
}

std::vector<std::string> go_sum_urls(std::string_view value) {
  // "sum.example", "sum.example+key", "name+key https://sum.example"; "off" is none.
  if (value.empty() || value == "off") return {};
  const size_t blank = value.find(' ');
  if (blank != value.npos) return {std::string(value.substr(blank + 1))};
  return {"https://" + std::string(value.substr(0, value.find('+')))};
}

std::vector<std::string> go_env_tool_urls(std::string_view text) {
  const auto lines = split(text, '\n');
  std::vector<std::string> urls = go_proxy_urls(lines.front());
  if (lines.size() < 2) return urls;
  for (std::string& url : go_sum_urls(lines[1])) urls.push_back(std::move(url));
  return urls;
}

ToolAnswer ask_package_tools(const std::vector<Manager>& managers, const Variable& variable,
                             std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  ToolAnswer answer;
  std::vector<Asked> asked;
  asked.reserve(tools().size());
  for (const Tool& tool : tools()) {
    if (std::ranges::find(managers, tool.manager) == managers.end()) continue;
    const auto program = find_tool(variable, tool.words.front());
    if (!program) continue;
    try {
      asked.emplace_back(tool, *program, variable);
    } catch (const Error&) {
      // It cannot be run: then it says nothing.
    }
  }
  listen(asked, until);
  for (Asked& one : asked) {
    answer.whole = answer.whole && one.whole();
    for (const std::string& url : one.urls())
      if (const auto host = rule_for_url(url)) answer.urls.push_back("https://" + *host);
  }
  return answer;
}

// ---- remembered

// Which tools there are; another version of one is another file.
static std::string identity_of(const std::vector<Manager>& managers, const Variable& variable) {
  std::string out = "v1";
  for (const Tool& tool : tools()) {
    if (std::ranges::find(managers, tool.manager) == managers.end()) continue;
    const auto program = find_tool(variable, tool.words.front());
    if (!program) continue;
    try {
      const sys::FileStamp stamp = sys::stamp_of(sys::open_file(*program, O_PATH).get());
      out += " " + *program + ":" + std::to_string(stamp.inode) + ":" +
             std::to_string(stamp.changed_ns);
    } catch (const Error&) {
      continue;
    }
  }
  for (const std::string_view name : kVariables)
    out += " " + std::string(name) + "=" + variable(name).value_or("");
  std::ranges::replace(out, '\n', ' ');
  return out;
}

static int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string> package_tool_urls(const std::vector<Manager>& managers,
                                           const Variable& variable,
                                           std::chrono::milliseconds patience,
                                           const std::string& file) {
  const std::string identity = identity_of(managers, variable);
  try {
    const std::string kept = sys::read_own_text_file(file, kMaxKept);
    const auto lines = split(kept, '\n');
    const auto until = parse_u64(lines.front());
    const auto now = static_cast<uint64_t>(seconds_now());
    // A clock that was set back must not make it last.
    const auto longest = static_cast<uint64_t>(std::chrono::seconds(kKept).count());
    if (lines.size() >= 2 && until && *until > now && *until - now <= longest &&
        lines[1] == identity) {
      std::vector<std::string> urls;
      for (const std::string_view line : std::span(lines).subspan(2))
        if (!line.empty()) urls.emplace_back(line);
      return urls;
    }
  } catch (const Error&) {
    // Nothing is kept.
  }
  const ToolAnswer answer = ask_package_tools(managers, variable, patience);
  const std::chrono::seconds lasts = answer.whole ? std::chrono::seconds(kKept) : kKeptCutOff;
  std::string text = std::to_string(seconds_now() + lasts.count()) + "\n" + identity + "\n";
  for (const std::string& url : answer.urls) text += url + "\n";
  try {
    if (text.size() <= kMaxKept) sys::write_file_atomic(file, as_bytes(text), 0600);
  } catch (const Error&) {
    // The next command asks again.
  }
  return answer.urls;
}

}
