#include "reading.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::image {

void check_tree_limits(const Tree& tree, const Limits& limits) {
  if (tree.node_count() > limits.entries)
    throw Error(Kind::Exhausted, "more than " + std::to_string(limits.entries) + " entries");
  if (tree.metadata_bytes() > limits.metadata)
    throw Error(Kind::Exhausted, "more than " + format_size(limits.metadata) +
                                     " of names, link targets and attributes");
}

void keep_xattrs(Xattrs::List& xattrs, Notes& notes) {
  std::erase_if(xattrs, [&](const auto& xattr) {
    if (keeps_xattr(xattr.first)) return false;
    ++notes["extended attributes that belong to the host were left out"];
    return true;
  });
  std::sort(xattrs.begin(), xattrs.end());
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  xattrs.erase(std::unique(xattrs.begin(), xattrs.end(), same), xattrs.end());
  size_t total = 0;
  for (const auto& [name, value] : xattrs) {
    if (name.size() > kMaxFileName || value.size() > kMaxAttributes - 1)
      throw Error(Kind::Exhausted, "an extended attribute that is too long");
    total += name.size() + value.size();
  }
  if (total > kMaxAttributes)
    throw Error(Kind::Exhausted, "more than 64 KiB of extended attributes");
}

}
