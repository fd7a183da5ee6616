#pragma once
// Where everything lives: two roots, and the name of each file below them, in one place.
//
// runtime: sockets and locks, gone after a reboot. $MVM_RUNTIME_DIR, else /run/mvm (root), else
//   $XDG_RUNTIME_DIR/mvm, else /tmp/mvm-UID.
// data: what lasts. $MVM_DATA_DIR, else /var/lib/mvm (root), else $XDG_DATA_HOME/mvm, else
//   ~/.local/share/mvm.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace mvm::store {

class Paths {
 public:
  // Looks a variable up; nothing when it is unset or empty.
  using Environment = std::function<std::optional<std::string>(const char* name)>;

  // As the process's environment and effective user say. Throws Error{Invalid} when a variable
  // holds a relative path, and Error{Unavailable} when there is nowhere to put data (no HOME).
  static Paths from_environment();
  static Paths resolve(const Environment& environment, uid_t user);
  // Both absolute.
  Paths(std::string runtime, std::string data);

  const std::string& runtime() const { return runtime_; }
  const std::string& data() const { return data_; }

  // Make the directories that are missing, with mode 0700, and refuse (Error{Denied}) what is not
  // safe to keep secrets and sockets in: a symbolic link, a directory of somebody else, or one that
  // others may write to. ensure_runtime makes runtime/ and runtime/s/; ensure_data makes data/ and
  // each directory below it that this class names.
  void ensure_runtime() const;
  void ensure_data() const;

  // runtime
  std::string daemon_socket() const { return runtime_ + "/daemon.sock"; }
  std::string daemon_lock() const { return runtime_ + "/daemon.lock"; }
  std::string daemon_log() const { return data_ + "/daemon.log"; }
  std::string sandboxes_runtime() const { return runtime_ + "/s"; }
  std::string sandbox_runtime(std::string_view name) const;
  std::string control_socket(std::string_view name) const;
  std::string vsock_socket(std::string_view name) const;
  // Makes runtime/s/<name>/ anew and empty (what an earlier sandbox of that name left is removed).
  void make_sandbox_runtime(std::string_view name) const;

  // data
  std::string state_db() const { return data_ + "/state.db"; }
  std::string image_index() const { return data_ + "/images.db"; }
  std::string image_names() const { return data_ + "/images.names"; }
  std::string image_settings() const { return data_ + "/images.json"; }
  std::string images_dir() const { return data_ + "/images"; }
  std::string blobs_dir() const { return data_ + "/blobs"; }
  std::string registries_file() const { return data_ + "/registries.json"; }
  std::string kernels_dir() const { return data_ + "/kernels"; }
  std::string initramfs_dir() const { return data_ + "/initramfs"; }
  std::string overlays_dir() const { return data_ + "/overlay"; }
  std::string sandboxes_dir() const { return data_ + "/sandboxes"; }
  std::string disks_dir() const { return data_ + "/disks"; }
  // Held by whoever builds; says who.
  std::string builder_lock() const { return data_ + "/builder.lock"; }
  std::string audit_dir() const { return data_ + "/audit"; }
  std::string audit_log(std::string_view id) const;  // of a sandbox, or "daemon"
  std::string audit_public_key() const { return audit_dir() + "/key.pub"; }
  std::string sandbox_data(std::string_view id) const;
  std::string overlay_image(std::string_view id) const;
  std::string kept_disk(std::string_view name) const;  // outlives sandboxes
  std::string console_log(std::string_view id) const;
  std::string exit_file(std::string_view id) const;
  void make_sandbox_data(std::string_view id) const;

 private:
  std::string runtime_;
  std::string data_;
};

// One directory as ensure_* treat it: made with mode 0700 when missing, refused when it is a
// symbolic link, another user's, or writable by others.
void ensure_private_directory(const std::string& path);

}
