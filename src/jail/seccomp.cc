// From a list of rules to a filter program. The order of the list is the order of comparison, so
// frequent calls go first.
#include "mvm/jail/seccomp.h"

#include <cstddef>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/sys/error.h"

namespace mvm::jail {

static_assert(sizeof(Instruction) == sizeof(sock_filter));
static_assert(offsetof(Instruction, operand) == offsetof(sock_filter, k));

static constexpr uint32_t kX32Bit = 0x4000'0000;
static constexpr size_t kMaxInstructions = 4096;  // BPF_MAXINSNS

static Instruction load(size_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)};
}
static Instruction give(uint32_t action) { return {BPF_RET | BPF_K, 0, 0, action}; }
// Compares what was loaded; skips `otherwise` instructions when it differs.
static Instruction equals(uint32_t value, uint8_t then, uint8_t otherwise) {
  return {BPF_JMP | BPF_JEQ | BPF_K, then, otherwise, value};
}

std::vector<Instruction> compile_filter(std::span<const Rule> rules, Violation violation) {
  const uint32_t refuse = violation == Violation::Kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_LOG;
  const uint32_t allow = violation == Violation::Trace ? SECCOMP_RET_LOG : SECCOMP_RET_ALLOW;
  std::vector<Instruction> program;
  // Another architecture's numbering, or x32's, would make every number below mean another call.
  program.push_back(load(offsetof(seccomp_data, arch)));
  program.push_back(equals(AUDIT_ARCH_X86_64, 1, 0));
  program.push_back(give(SECCOMP_RET_KILL_PROCESS));
  program.push_back(load(offsetof(seccomp_data, nr)));
  program.push_back({BPF_JMP | BPF_JGE | BPF_K, 0, 1, kX32Bit});
  program.push_back(give(SECCOMP_RET_KILL_PROCESS));

  for (const Rule& rule : rules) {
    const auto number = static_cast<uint32_t>(rule.number);
    if (rule.values.empty()) {
      program.push_back(equals(number, 0, 1));
      program.push_back(give(allow));
      continue;
    }
    MVM_ASSERT(rule.argument < 6 && rule.values.size() < 100);
    // load argument, two instructions a value, reload the number for the next rule
    const auto body = static_cast<uint8_t>(1 + 2 * rule.values.size() + 1);
    program.push_back(equals(number, 0, body));
    program.push_back(load(offsetof(seccomp_data, args) + rule.argument * sizeof(uint64_t)));
    for (const uint32_t value : rule.values) {
      program.push_back(equals(value, 0, 1));
      program.push_back(give(allow));
    }
    program.push_back(load(offsetof(seccomp_data, nr)));
  }
  program.push_back(give(refuse));
  MVM_ASSERT(program.size() <= kMaxInstructions);
  return program;
}

void forbid_new_privileges() {
  sys::check(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbidding new privileges");
}

void confine_thread(const char* name, std::span<const Rule> rules, Violation violation) {
  sys::check(::prctl(PR_SET_NAME, name), "naming a thread");
  const auto program = compile_filter(rules, violation);
  // The layouts are the same (asserted above), and the kernel only reads.
  const sock_fprog filter{static_cast<unsigned short>(program.size()),
                          reinterpret_cast<sock_filter*>(const_cast<Instruction*>(program.data()))};
  sys::check(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), "confining a thread");
}

}
