#pragma once

namespace mvm::guest {

// What PID 1 does from its first instruction to the machine's end.
[[noreturn]] void run_as_process_one();

}
