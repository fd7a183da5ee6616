// The filters told to let every call pass, and to tell the kernel's audit log of it: what
// tests/lab/seccomp-lists runs. It is no part of mvm, where nothing changes what a filter does.
#include "mvm/jail/seccomp.h"

namespace mvm::jail {

const Violation kViolation = Violation::Trace;

}
