#include "programs.h"

// NAME_begin and NAME_end around the bytes of FILE. From the assembler: arrays that nobody sized.
#define MVM_PROGRAM(NAME, FILE)      \
  asm(".section .rodata." #NAME      \
      ", \"a\"\n"                    \
      ".balign 4096\n" #NAME         \
      "_begin:\n"                    \
      ".incbin \"" FILE "\"\n" #NAME \
      "_end:\n"                      \
      ".previous\n");                \
  extern "C" const std::byte NAME##_begin[], NAME##_end[]  // NOLINT

MVM_PROGRAM(mvm_agent, MVM_AGENT_FILE);
MVM_PROGRAM(mvm_monitor_program, MVM_MONITOR_FILE);

namespace mvm {

ByteView agent_binary() { return {mvm_agent_begin, mvm_agent_end}; }
ByteView monitor_binary() { return {mvm_monitor_program_begin, mvm_monitor_program_end}; }

}
