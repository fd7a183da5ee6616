#include "mvm/sys/rename.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mvm/sys/error.h"

namespace mvm::sys {

static long rename_with(const std::string& from, const std::string& to, unsigned flags) {
  return ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags);
}

bool rename_to_new(const std::string& from, const std::string& to, std::string_view doing) {
  if (rename_with(from, to, RENAME_NOREPLACE) == 0) return true;
  if (errno != EEXIST) throw SystemError(errno, doing);
  return false;
}

void exchange_names(const std::string& from, const std::string& to, std::string_view doing) {
  check(rename_with(from, to, RENAME_EXCHANGE), doing);
}

}
