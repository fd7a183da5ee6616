#pragma once
// A thread's list of permitted system calls, as data with a reason a line, compiled to a seccomp
// filter (seccomp(2)).
//
// Lists are plain arrays next to the role that uses them. Anything not listed kills the process at
// once. How a list is checked for gaps and for calls that nobody makes: tests/lab/seccomp-lists.

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

enum class Violation {
  Kill,
  Log,    // unlisted calls pass, and the kernel's audit log tells of them
  Trace,  // every call passes, and the kernel's audit log tells of all
};

// What confine_thread does. Kill, and nothing at run time changes that; a program of the tests
// links another definition.
extern const Violation kViolation;

// One instruction of classic BPF, laid out as struct sock_filter.
struct Instruction {
  uint16_t code;
  uint8_t jump_true;
  uint8_t jump_false;
  uint32_t operand;
};

std::vector<Instruction> compile_filter(std::span<const Rule> rules, Violation violation);

// PR_SET_NO_NEW_PRIVS for the calling thread and its children. Must come before any filter.
void forbid_new_privileges();

// Stage 4 of the jail (mvm/jail/jail.h). Before: stage 3; the thread has opened and started what it
// needs. After: the calling thread, shown as `name` (15 characters) in /proc, is under `rules` for
// good. Throws SystemError.
void confine_thread(const char* name, std::span<const Rule> rules,
                    Violation violation = kViolation);

}
