#pragma once
// Tells when the files that a flake is built from change: inotify(7) on their folders.

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mvm/build/source.h"
#include "mvm/sys/fd.h"

namespace mvm::build {

inline constexpr size_t kMaxWatched = 8192;  // folders

class SourceWatch {
 public:
  // From now on. Of a git repository only what git tracks counts, and what it is told to track.
  explicit SourceWatch(const std::vector<Source>& sources);
  SourceWatch(const SourceWatch&) = delete;
  SourceWatch& operator=(const SourceWatch&) = delete;

  // Folders that are not watched, because there are too many of them.
  size_t left_out() const { return left_out_; }

  // Waits for a change, and then until nothing has changed for `quiet`, but no longer than
  // `longest`. False when `interrupt` (a descriptor, or -1) became readable first.
  bool wait(int interrupt, std::chrono::milliseconds quiet, std::chrono::milliseconds longest);

 private:
  struct Folder {
    const Source* source = nullptr;
    std::string path;  // below the source's root; "" for that
    bool git = false;  // the repository's own
  };
  void add_folder(const Source& source, const std::string& path, bool git);
  void add_tree(const Source& source, const std::string& path);
  void read_events();
  bool counts(const Folder& folder, const std::string& name, uint32_t mask);

  std::vector<Source> sources_;
  sys::Fd fd_;
  std::map<int, Folder> folders_;
  size_t left_out_ = 0;
  bool changed_ = false;
};

}
