#pragma once
// Values that the user has given mvm to keep, and references by name, in one directory (0700):
//
//   key     32 random bytes, mode 0600, made with the first value
//   values  all of them, sealed with it (mvm/crypto/seal.h); replaced as a whole
//   lock    held while they are changed
//
// Who can read the key can read the values: this keeps them out of a copy of one file, of a search
// over the disk, of whoever looks over a shoulder; not from the user's own account.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mvm/sys/fd.h"

namespace mvm::secret {

struct Stored {
  std::string from;    // a reference; empty: the value is here
  std::string value;   // wiped with the map that it is in
  int64_t set_at = 0;  // Unix seconds
};
class StoredMap : public std::map<std::string, Stored> {
 public:
  StoredMap() = default;
  StoredMap(StoredMap&&) = default;
  StoredMap& operator=(StoredMap&&) = default;
  ~StoredMap();
};

class Store {
 public:
  static constexpr size_t kMaxEntries = 256;

  explicit Store(std::string directory) : directory_(std::move(directory)) {}

  // Empty when nothing was ever stored. Throws Error{Invalid} when the file cannot be unsealed, and
  // as sys::open_own_file does.
  StoredMap read() const;
  // Throws Error{Exhausted} when there are too many.
  void set(const std::string& name, Stored entry);
  bool remove(const std::string& name);  // false: there is none

 private:
  std::string path(const char* file) const { return directory_ + "/" + file; }
  sys::Fd lock() const;
  void write(const StoredMap& entries) const;

  std::string directory_;
};

}
