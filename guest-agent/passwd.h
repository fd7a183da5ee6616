#pragma once
// Who a command runs as, read from the sandbox's own /etc/passwd and /etc/group. A static program
// has no NSS, and the files belong to the image: they are parsed here, with bounds, and a line
// that makes no sense is passed over.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "mvm/base/expected.h"

namespace mvm::guest {

inline constexpr size_t kMaxAccountFile = size_t{1024} * 1024;
inline constexpr size_t kMaxSupplementaryGroups = 1024;

struct Identity {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string name;           // empty for a number that has no account
  std::string home = "/";
  std::string shell = "/bin/sh";
};

// `spec` is "name" or "uid", either with ":group" or ":gid". A number needs no account: its group
// is then 0, as container tools have it. A group given by hand replaces all others. The error is a
// sentence for the user.
Expected<Identity, std::string> find_identity(std::string_view spec, std::string_view passwd,
                                              std::string_view group);
// Adds supplementary groups, each a name or a number. The complaint is a sentence for the user.
std::optional<std::string> add_groups(Identity& identity, const std::vector<std::string>& wanted,
                                      std::string_view group);
// The same from the files of the running system; a missing file is an empty one.
Expected<Identity, std::string> find_identity(std::string_view spec);
std::optional<std::string> add_groups(Identity& identity, const std::vector<std::string>& wanted);

}
