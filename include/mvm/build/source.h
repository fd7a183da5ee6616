#pragma once
// The files of a flake in a folder here, as Nix would see them: in a git repository those that git
// tracks, as they are now, committed or not; elsewhere all. What git does not track never leaves
// this host, history and ignored files (keys among them) included.

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "mvm/agent/tree.h"
#include "mvm/crypto/hash.h"

namespace mvm::build {

inline constexpr size_t kMaxTracked = size_t{256} << 20;  // bytes of names of tracked files

struct Source {
  std::string root;          // what is copied: the repository's, or the folder
  std::string subdirectory;  // of the flake in it; "" for the root itself
  bool git = false;
  bool submodules = false;  // git: files of submodules are taken too
  std::string revision;     // git: of HEAD when nothing tracked differs from it; else empty
  int64_t time = 0;         // git: of HEAD's commit, which all files get
  std::set<std::string, std::less<>> tracked;  // git: paths below the root

  // Of commits up to `revision`, as Nix counts them; nothing where history was cut off (a shallow
  // clone) or there is no revision.
  std::optional<uint64_t> revision_count() const;

  // Borrows *this.
  agent::TreeView view() const;
  std::string flake_file() const;  // path of its flake.nix
  std::string lock_file() const;
};

// `directory` is absolute. Throws Error{NotFound} when neither it nor a folder above it (within its
// repository) has a flake.nix, Error{Invalid} when git does not track that, Error{Unavailable} when
// this host has no git and needs it.
enum class Submodules { LeftOut, Taken };
Source find_source(const std::string& directory, const std::string& subdirectory,
                   Submodules submodules = Submodules::LeftOut);
// A folder as a whole, for an input that is overridden: the same rules, flake.nix asked for at its
// own top.
Source input_source(const std::string& directory);

// Of names, content, which files may be executed, and times where they are the folder's own.
crypto::Digest digest_of(const Source& source);

// Tells git that a file is to be seen, without its content (git add --intent-to-add).
void track(const Source& source, const std::string& path);

}
