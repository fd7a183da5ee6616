// Carries the guest agent inside the program, so that host and guest can never be of different
// versions.
#include "agent_blob.h"

asm(".section .rodata.mvm_agent, \"a\"\n"
    ".balign 16\n"
    "mvm_agent_begin:\n"
    ".incbin \"" MVM_AGENT_FILE
    "\"\n"
    "mvm_agent_end:\n"
    ".previous\n");

extern "C" {
extern const std::byte
    mvm_agent_begin[];  // NOLINT: an address from the assembler, not an array we sized
extern const std::byte mvm_agent_end[];  // NOLINT
}

namespace mvm {

ByteView agent_binary() { return {mvm_agent_begin, mvm_agent_end}; }

}
