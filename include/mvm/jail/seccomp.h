#pragma once
// A thread's list of permitted system calls, as data with a reason a line, compiled to a seccomp
// filter (seccomp(2)).
//
// Lists are plain arrays next to the role that uses them. Anything not listed kills the process at
// once; with MVM_SECCOMP=log in the environment it is only logged by the kernel, which is how a
// list is checked for gaps.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace mvm::jail {

struct Rule {
  long number;           // __NR_…
  std::string_view why;  // why this thread needs it
  // When not empty: argument `argument` must equal one of these (its low 32 bits are compared,
  // which is all that the kernel reads of an ioctl request, a socket family or a clone flag word).
  std::vector<uint32_t> values;
  unsigned argument = 0;
};

enum class Violation { Kill, Log };

// One instruction of classic BPF, laid out as struct sock_filter.
struct Instruction {
  uint16_t code;
  uint8_t jump_true;
  uint8_t jump_false;
  uint32_t operand;
};

std::vector<Instruction> compile_filter(std::span<const Rule> rules, Violation violation);

// Kill, or Log when MVM_SECCOMP=log.
Violation violation_from_environment();

// PR_SET_NO_NEW_PRIVS for the calling thread and its children. Must come before any filter.
void forbid_new_privileges();

// Puts the calling thread under `rules`, for good. Throws SystemError.
void confine_thread(std::span<const Rule> rules, Violation violation);

}
