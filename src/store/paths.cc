#include "mvm/store/paths.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::store {

static std::string joined(const std::string& directory, std::string_view name,
                          std::string_view file = {}) {
  std::string path = directory + "/" + std::string(name);
  if (!file.empty()) path.append("/").append(file);
  return path;
}

Paths Paths::from_environment() {
  const auto environment = [](const char* name) -> std::optional<std::string> {
    // secure_: a set-id caller's variables are not to be trusted with paths.
    const char* value = ::secure_getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
  return resolve(environment, ::geteuid());
}

Paths Paths::resolve(const Environment& environment, uid_t user) {
  const auto variable = [&](const char* name) {
    auto value = environment(name);
    if (value && value->empty()) value.reset();
    if (value && value->front() != '/')
      throw Error(Kind::Invalid,
                  std::string(name) + " must be an absolute path, it is \"" + *value + "\"");
    return value;
  };
  const bool root = user == 0;

  std::string runtime;
  if (const auto own = variable("MVM_RUNTIME_DIR")) {
    runtime = *own;
  } else if (root) {
    runtime = "/run/mvm";
  } else if (const auto xdg = variable("XDG_RUNTIME_DIR")) {
    runtime = *xdg + "/mvm";
  } else {
    runtime = "/tmp/mvm-" + std::to_string(user);
  }

  if (const auto own = variable("MVM_DATA_DIR")) return {runtime, *own};
  if (root) return {runtime, "/var/lib/mvm"};
  if (const auto xdg = variable("XDG_DATA_HOME")) return {runtime, *xdg + "/mvm"};
  if (const auto home = variable("HOME")) return {runtime, *home + "/.local/share/mvm"};
  throw Error(Kind::Unavailable, "no place for mvm's data: set HOME or MVM_DATA_DIR");
}

Paths::Paths(std::string runtime, std::string data)
    : runtime_(std::move(runtime)), data_(std::move(data)) {
  MVM_ASSERT(runtime_.starts_with('/') && data_.starts_with('/'));
}

void ensure_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    if (errno == ENOENT) {
      sys::make_directories(path, 0700);
    } else if (errno != EEXIST) {
      throw SystemError(errno, "making directory " + path);
    }
  }
  // What is there is judged through a descriptor, and O_NOFOLLOW refuses a link in its place:
  // below /tmp anybody may have made it before us.
  sys::Fd fd;
  try {
    fd = sys::open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (const SystemError& error) {
    if (error.errno_value() != ELOOP && error.errno_value() != ENOTDIR) throw;
    throw Error(Kind::Denied, path + " is not a directory of its own (a symbolic link or a file)");
  }
  struct stat status{};
  sys::check(::fstat(fd.get(), &status), "reading status of " + path);
  if (status.st_uid != ::geteuid())
    throw Error(Kind::Denied, path + " belongs to user " + std::to_string(status.st_uid) +
                                  ", not to user " + std::to_string(::geteuid()) +
                                  "; remove it, or set MVM_RUNTIME_DIR and MVM_DATA_DIR");
  if ((status.st_mode & 022) != 0)
    throw Error(Kind::Denied, path + " may be written by others; run: chmod 700 " + path);
}

void Paths::ensure_runtime() const {
  ensure_private_directory(runtime_);
  ensure_private_directory(sandboxes_runtime());
}

void Paths::ensure_data() const {
  ensure_private_directory(data_);
  for (const std::string& path : {images_dir(), blobs_dir(), kernels_dir(), initramfs_dir(),
                                  overlays_dir(), sandboxes_dir(), disks_dir(), audit_dir()})
    ensure_private_directory(path);
}

std::string Paths::sandbox_runtime(std::string_view name) const {
  return joined(sandboxes_runtime(), name);
}
std::string Paths::control_socket(std::string_view name) const {
  return joined(sandboxes_runtime(), name, "control.sock");
}
std::string Paths::vsock_socket(std::string_view name) const {
  return joined(sandboxes_runtime(), name, "vsock.sock");
}

void Paths::make_sandbox_runtime(std::string_view name) const {
  const std::string path = sandbox_runtime(name);
  sys::remove_tree(path);
  ensure_private_directory(path);
}

std::string Paths::audit_log(std::string_view id) const { return joined(audit_dir(), id); }
std::string Paths::sandbox_data(std::string_view id) const { return joined(sandboxes_dir(), id); }
std::string Paths::overlay_image(std::string_view id) const {
  return joined(sandboxes_dir(), id, "overlay.img");
}
std::string Paths::kept_disk(std::string_view name) const {
  return joined(disks_dir(), std::string(name) + ".img");
}
std::string Paths::console_log(std::string_view id) const {
  return joined(sandboxes_dir(), id, "console.log");
}
std::string Paths::exit_file(std::string_view id) const {
  return joined(sandboxes_dir(), id, "exit.json");
}

void Paths::make_sandbox_data(std::string_view id) const {
  ensure_private_directory(sandbox_data(id));
}

}
