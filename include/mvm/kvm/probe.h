#pragma once
// Can this host run a guest? Found out by trying, and said with the way out.

#include <string>

namespace mvm::kvm {

enum class Support {
  Usable,
  NoDevice,              // there is no /dev/kvm
  NoPermission,          // there is, and we may not open it
  NotKvm,                // it opens, and is not what mvm needs
  CannotRunStockKernel,  // it works, and cannot execute what every distribution kernel contains
};

struct HostSupport {
  Support support = Support::Usable;
  std::string message;  // what is the matter
  std::string way_out;  // what to do about it; empty when usable
};

// Takes some milliseconds: where the device opens, a guest of a few instructions runs on it.
HostSupport probe(const std::string& device = "/dev/kvm");

}
