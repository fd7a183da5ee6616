// The list of the sandbox process, tried on a real child: a call that is not on it, or an argument
// that is not, ends the process.
#include "../../../src/sandbox/syscalls.h"

#include "../../support/forbidden_calls.h"

namespace mvm::sandbox {

TEST(SandboxSyscalls, ForbiddenCallKills) {
  test::expect_forbidden(sandbox_syscalls(), {"socket(AF_UNIX)"});
}

TEST(SandboxSyscalls, FilesAreOpenedOnlyAnew) {
  for (const int flags : {O_RDONLY, O_RDWR, O_WRONLY, O_WRONLY | O_CREAT,
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, O_PATH})
    test::expect_killed(sandbox_syscalls(), "openat " + std::to_string(flags),
                        [flags] { ::syscall(__NR_openat, -1, "x", flags, 0600); });
  test::expect_survived(sandbox_syscalls(), "openat of a new file", [] {
    ::syscall(__NR_openat, -1, "x", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
              0600);
  });
}

}
