#pragma once
// Environments of sandboxes, and the words of commands that are run in them, as state.db keeps
// them: sealed, because people put into them what is nobody else's business. The key is a file
// beside it, with mode 0600, made when it is first needed; so a copy of the database, or a search
// over it, shows names and values of none.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mvm/base/bytes.h"
#include "mvm/crypto/seal.h"

namespace mvm::daemon {

struct Sealed {
  std::map<std::string, std::string> env;
  std::vector<std::string> health;  // the command of its check
};

class EnvironmentSeal {
 public:
  // Reads the key at `path`, or makes it. Throws Error{Denied} when others can read it, and
  // Error{Invalid} when it is none.
  explicit EnvironmentSeal(const std::string& path);
  ~EnvironmentSeal();
  EnvironmentSeal(const EnvironmentSeal&) = delete;
  EnvironmentSeal& operator=(const EnvironmentSeal&) = delete;

  // Of one sandbox: what is sealed for one id does not open for another.
  Bytes seal(const std::string& id, const Sealed& what) const;
  // Nothing: it was sealed with another key, or changed.
  std::optional<Sealed> open(const std::string& id, ByteView sealed) const;

 private:
  std::array<std::byte, crypto::kSealKey> key_{};
};

}
