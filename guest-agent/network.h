#pragma once
// The sandbox's network card, as the host has described it: addresses, routes, name server.

#include "settings.h"

namespace mvm::guest {

// Does nothing without addresses in the settings. What goes wrong is said on the console and
// otherwise left: a sandbox without a network is of use, and says so to whoever looks.
void set_up_network(const Settings& settings);

}
