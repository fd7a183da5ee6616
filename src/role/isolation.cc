#include "mvm/base/error.h"

#include "roles.h"

namespace mvm::role {

jail::Isolation isolation_of(int argc, char** argv) {
  const auto isolation =
      argc == 3 ? jail::isolation_from_name(argv[2]) : std::optional<jail::Isolation>();
  if (!isolation)
    throw Error(Kind::Invalid,
                std::string("mvm ") + argv[1] + " is started by the daemon; use mvm up");
  return *isolation;
}

}
