#pragma once
// The programs that ride inside this one, so that all of them are always of one version.

#include "mvm/base/bytes.h"

namespace mvm {

ByteView agent_binary();    // the static guest agent
ByteView monitor_binary();  // src/monitor_main.cc

}
