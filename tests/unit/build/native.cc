#include "native.h"

#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>

#include "mvm/base/text.h"
#include "mvm/build/capture.h"
#include "mvm/crypto/random.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

namespace mvm::build {

static std::vector<std::string> environment() {
  std::vector<std::string> env;
  for (const char* name : {"PATH", "HOME", "XDG_CACHE_HOME", "MVM_DATA_DIR", "MVM_RUNTIME_DIR"})
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + "=" + value);
  return env;
}

std::string run_program(std::vector<std::string> argv, const std::string& directory) {
  sys::SpawnOptions options;
  options.argv = std::move(argv);
  if (!options.argv[0].starts_with('/')) options.argv.insert(options.argv.begin(), "/usr/bin/env");
  options.env = environment();
  options.directory = directory;
  const sys::Fd out = sys::memory_file("out", 0);
  options.fds = {{0, 0}, {out.get(), 1}, {2, 2}};
  const auto status = sys::spawn(options).wait();
  if (*status != sys::ExitStatus{})
    throw Error(Kind::Unavailable, options.argv.back() + ": " + status->text());
  std::string text(sys::file_size(out.get()), '\0');
  if (!sys::pread_exact(out.get(), std::as_writable_bytes(std::span(text)), 0))
    throw Error(Kind::Internal, "its output is gone");
  return text;
}

// The two lines that tests/nix/prepare prints.
static const std::vector<std::string>& prepared() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> out;
    const std::string text = run_program({MVM_NIX_TESTS "/prepare"});
    for (const auto line : split(text, '\n'))
      if (!line.empty()) out.emplace_back(line);
    if (out.size() != 2) throw Error(Kind::Unavailable, "tests/nix/prepare gave no folders");
    return out;
  }();
  return lines;
}

const std::string& stand_in_folder() { return prepared()[0]; }
const std::string& builder_root() { return prepared()[1]; }

void prepare_work(const std::string& work) {
  // Inside the namespaces there is one user, and no right to shut a build in once more.
  sys::make_directories(work + "/upper/etc/nix", 0755);
  sys::make_directories(work + "/upper/agent", 0755);
  const std::string conf =
      "experimental-features = nix-command flakes\nsandbox = false\nbuild-users-group =\n";
  sys::write_file_atomic(work + "/upper/etc/nix/nix.conf", as_bytes(conf), 0644);
  // With what a sanitizer's build of it needs.
  run_program({"sh", "-euc",
               "cp \"$0\" \"$1/mvm-agent\"; "
               "{ ldd \"$0\" 2>/dev/null || true; } | sed -n 's/.*=> \\(\\/[^ ]*\\).*/\\1/p' | "
               "while read -r file; do cp \"$file\" \"$1/\"; done",
               MVM_AGENT, work + "/upper/agent"});
}

Lanes::Lanes() : path_(crypto::random_id("/dev/shm/mvm-lanes-")) { sys::make_directories(path_); }

Lanes::~Lanes() { sys::remove_tree(path_); }

sys::Fd Lanes::dial(uint32_t port) const {
  auto socket = sys::connect_unix(path_ + "/" + std::to_string(port));
  if (!socket) throw Error(Kind::Unavailable, "nobody listens for lane " + std::to_string(port));
  return std::move(*socket);
}

sys::Child start_agent(const std::string& root, const std::string& work, int socket,
                       const Lanes& lanes, std::optional<uint64_t> small_disk) {
  sys::SpawnOptions options;
  options.argv = {MVM_NIX_TESTS "/enter", root, work};
  options.env = environment();
  if (small_disk) options.env.push_back("MVM_SMALL_DISK=" + std::to_string(*small_disk));
  for (const char* word :
       {"LD_LIBRARY_PATH=/agent", "/agent/mvm-agent", "--serve-fd", "3", "--lanes"})
    options.argv.emplace_back(word);
  options.argv.push_back(lanes.path());
  options.fds = {{socket, 3}, {0, 0}, {1, 1}, {2, 2}};
  options.die_with_parent = true;
  return sys::spawn(options);
}

NativeBuilder::NativeBuilder(const std::string& base, std::optional<uint64_t> small_disk)
    : work_(base + "/builder"),
      small_disk_(small_disk),
      paths_(base + "/runtime", base + "/data"),
      images_([&]() -> const store::Paths& {
        paths_.ensure_data();
        return paths_;
      }()) {
  prepare_work(work_);
}

NativeBuilder::~NativeBuilder() { stop(); }

void NativeBuilder::stop() {
  connection_.reset();
  if (agent_) agent_.wait();
  agent_ = {};
}

agent::Connection& NativeBuilder::connection() {
  stop();
  ++starts;
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  agent_ = start_agent(builder_root(), work_, theirs.get(), lanes_, small_disk_);
  connection_.emplace(std::move(ours), interrupt);
  connection_->set_dial([this](uint32_t port) {
    sys::Fd socket = lanes_.dial(port);
    sys::set_nonblocking(socket.get());
    return socket;
  });
  return *connection_;
}

static api::Image shown(const store::Image& image) {
  api::Image out;
  out.names = image.names;
  out.name = image.names.empty() ? "" : image.names.front();
  out.digest = image.digest;
  out.entrypoint = image.manifest.config.entrypoint;
  out.env = image.manifest.config.env;
  out.user = image.manifest.config.user;
  out.workdir = image.manifest.config.workdir;
  out.health = image.manifest.config.health;
  out.labels = image.manifest.config.labels;
  out.size = image.manifest.size;
  out.content_bytes = image.manifest.content_bytes;
  out.source = image.manifest.source_path;
  out.source_kind = image.manifest.source_kind;
  return out;
}

std::optional<api::Image> NativeBuilder::adopt(const api::AdoptRequest& request) {
  try {
    return shown(build::adopt(store::Images(paths_), request));
  } catch (const Error& error) {
    if (error.kind() != Kind::NotFound) throw;
    return std::nullopt;
  }
}

api::Image NativeBuilder::capture(api::CaptureRequest request) {
  capture_limit_ms = request.timeout_ms;
  return shown(build::capture(images_, *connection_, request, {}).image);
}

std::string NativeBuilder::install_kernel(const std::string& bundle) {
  kernels.push_back(sys::read_text_file(bundle + "/bundle.json", 4096));
  return "kernel";
}

}
