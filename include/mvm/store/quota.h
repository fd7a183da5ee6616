#pragma once
// How much disk images and layers may take, all together. Set by the owner of the store, in a file
// that is optional:
//
//   data/images.json   {"quota": "50G"}
//
// Disks of sandboxes are not in it; those have sizes of their own.

#include <cstdint>
#include <optional>
#include <string_view>

#include "mvm/store/paths.h"

namespace mvm::store {

struct StoreSettings {
  std::optional<uint64_t> quota;  // bytes of disk
};
// Throws Error{Invalid} that begins with `where`.
StoreSettings parse_store_settings(std::string_view json, std::string_view where);

class Quota {
 public:
  // As the file says now.
  explicit Quota(const Paths& paths);

  bool limited() const { return limit_.has_value(); }
  // Bytes of disk that images, imports under way and layers take.
  uint64_t used() const;
  // What may come to that; nothing when there is no limit.
  std::optional<uint64_t> room() const;
  // Throws Error{Exhausted} with the ways out when `more` bytes do not fit.
  void require(uint64_t more) const;

 private:
  Paths paths_;
  std::optional<uint64_t> limit_;
};

}
