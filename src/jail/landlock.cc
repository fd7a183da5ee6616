#include "landlock.h"

#include <cerrno>
#include <cstdint>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/sys/error.h"
#include "mvm/sys/fd.h"

namespace mvm::jail {

// The interface's own numbers (include/uapi/linux/landlock.h of 6.12): headers of an older
// distribution know fewer of them than the kernel that runs.
static constexpr unsigned kAskVersion = 1;
static constexpr int kRulePathBeneath = 1;
static constexpr uint64_t kWriteFile = 1 << 1;
static constexpr uint64_t kRemoveFile = 1 << 5;
static constexpr uint64_t kMakeRegular = 1 << 8;
static constexpr uint64_t kFileAccess1 = (1 << 13) - 1;
static constexpr uint64_t kRefer = 1 << 13;      // ABI 2
static constexpr uint64_t kTruncate = 1 << 14;   // ABI 3
static constexpr uint64_t kIoctl = 1 << 15;      // ABI 5
static constexpr uint64_t kBindTcp = 1;          // ABI 4
static constexpr uint64_t kConnectTcp = 2;       // ABI 4
static constexpr uint64_t kAbstractSockets = 1;  // ABI 6
static constexpr uint64_t kSignals = 2;          // ABI 6

struct RulesetAttributes {
  uint64_t file_access;
  uint64_t network;
  uint64_t scoped;
};
struct [[gnu::packed]] PathBeneath {
  uint64_t allowed;
  int32_t parent;
};

static size_t attribute_size(int abi) { return abi >= 6 ? 24 : abi >= 4 ? 16 : 8; }

int landlock_abi() {
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

static void allow_below(int directory, uint64_t access, int ruleset) {
  const PathBeneath rule{access, directory};
  sys::check(::syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &rule, 0),
             "adding a Landlock rule");
}

bool restrict_by_landlock(std::span<const int> writable, std::span<const int> appendable,
                          bool scope_signals, bool refuse_dials) {
  const int abi = landlock_abi();
  if (abi == 0) return false;
  RulesetAttributes attributes{};
  attributes.file_access =
      kFileAccess1 | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0) | (abi >= 5 ? kIoctl : 0);
  attributes.network = abi >= 4 ? kBindTcp | (refuse_dials ? kConnectTcp : 0) : 0;
  attributes.scoped = abi >= 6 ? kAbstractSockets | (scope_signals ? kSignals : 0) : 0;
  const sys::Fd ruleset(static_cast<int>(
      sys::check(::syscall(SYS_landlock_create_ruleset, &attributes, attribute_size(abi), 0),
                 "making a Landlock ruleset")));
  for (const int directory : writable)
    allow_below(directory, kWriteFile | kRemoveFile | kMakeRegular, ruleset.get());
  for (const int directory : appendable)
    allow_below(directory, kWriteFile | kMakeRegular, ruleset.get());
  sys::check(::syscall(SYS_landlock_restrict_self, ruleset.get(), 0), "restricting by Landlock");
  return true;
}

}
