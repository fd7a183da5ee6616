#pragma once
// A builder without a machine, as the daemon starts one: takes a sandbox process's configuration
// and serves its control socket with that process's own mux, behind which is the agent itself in
// the builder's root file system, natively (unit/build/native.h). Where that root file system is,
// the file "builder-root" of the daemon's data directory says; what is written stays with the
// sandbox. The test program runs itself as `<it> sandbox`.

namespace mvm::watch {

inline constexpr const char* kRootFile = "builder-root";

int run_stand_in();

}
