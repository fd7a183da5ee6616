#include "version.h"

namespace mvm::guest {
const std::string_view kAgentVersion = MVM_VERSION;
}
