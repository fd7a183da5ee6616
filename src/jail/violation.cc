#include "mvm/jail/seccomp.h"

namespace mvm::jail {

const Violation kViolation = Violation::Kill;

}
