#pragma once
// Makes the sandbox's programs trust its own certificate authority, which signs for the hosts whose
// connections the egress proxy inspects.

#include <string>
#include <string_view>

#include "launch.h"

namespace mvm::guest {

// Adds `authority` (PEM) to the image's bundles of certificates, in place of the one of an earlier
// start, and returns what commands are to find in their environment: the variables by which
// programs that bring certificates of their own are told of the bundle. Stores of Java are added to
// as well (java_store.h). Without any bundle in the image, one is made of this alone. `files` are
// bundles that the image's own environment names, which get it too where they are some. `root` is
// in front of every path: "" but for tests. Throws Error.
Environment trust_authority(std::string_view authority, const std::string& root = "",
                            const std::vector<std::string>& files = {});

}
