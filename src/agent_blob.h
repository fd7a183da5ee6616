#pragma once

#include "mvm/base/bytes.h"

namespace mvm {

// The static guest agent, as built beside this program.
ByteView agent_binary();

}
