#pragma once
// What this program's fallocate(2) says; the call itself stands in disk_faults_test.cc.

#include <atomic>

namespace mvm::monitor {

extern std::atomic<bool> no_holes;  // a file system without them

}
