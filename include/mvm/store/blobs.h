#pragma once
// Layers as registries hand them out, by the SHA-256 of their bytes, shared by all images:
//
//   data/blobs/<digest>        whole and verified
//   data/blobs/.part-<digest>  a download under way; locked while its process lives
//
// They are a cache: an image does not need its layers once it is made, the next pull does not need
// the network for those that are here.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "mvm/oci/digest.h"
#include "mvm/store/paths.h"
#include "mvm/store/quota.h"
#include "mvm/sys/fd.h"

namespace mvm::store {

// A blob being downloaded: whoever holds this is the only one. Gone, with its bytes, when dropped.
class PartialBlob {
 public:
  ~PartialBlob();
  PartialBlob(PartialBlob&&) noexcept = default;
  PartialBlob& operator=(PartialBlob&&) = delete;
  int fd() const { return fd_.get(); }  // empty at first, for reading and writing
  sys::Fd duplicate() const { return fd_.duplicate(); }

 private:
  friend class Blobs;
  PartialBlob(std::string path, sys::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  sys::Fd fd_;
};

class Blobs {
 public:
  explicit Blobs(const Paths& paths) : paths_(paths), directory_(paths.blobs_dir()) {}

  // Keeps prune() away while it lives: a pull needs blobs that no image refers to yet.
  sys::Fd hold() const;

  // Throws Error{Exhausted} when so many bytes do not fit the store's quota.
  void require_room(uint64_t more) const { Quota(paths_).require(more); }

  std::optional<sys::Fd> find(const oci::Digest& digest) const;
  // Nothing while somebody else downloads it; look again with find() a little later.
  std::optional<PartialBlob> begin(const oci::Digest& digest) const;
  // The caller has verified it.
  void commit(PartialBlob blob, const oci::Digest& digest) const;

  // For one that is damaged. Absent is fine.
  void remove(const oci::Digest& digest) const;

  struct Freed {
    uint64_t blobs = 0;
    uint64_t bytes = 0;
  };
  // Removes what is not in `keep` ("sha256:..."), and what interrupted downloads left. Does nothing
  // while a pull is under way. With `dry_run` it only counts.
  Freed prune(const std::set<std::string>& keep, bool dry_run = false) const;

 private:
  Paths paths_;
  std::string directory_;
};

}
