#include "mvm/sys/error.h"

#include <cerrno>
#include <cstring>

namespace mvm {

static Kind kind_of(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENXIO:
    case ESRCH:
      return Kind::NotFound;
    case EEXIST:
    case EBUSY:
    case EADDRINUSE:
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case ELOOP:
      return Kind::Conflict;
    case EACCES:
    case EPERM:
    case EROFS:
      return Kind::Denied;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EFBIG:
      return Kind::Exhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return Kind::Unavailable;
    case ENAMETOOLONG:
      return Kind::Invalid;
    case ETIMEDOUT:
      return Kind::Timeout;
    case ENOSYS:
    case EOPNOTSUPP:
      return Kind::Unsupported;
    default:
      return Kind::Internal;
  }
}

SystemError::SystemError(int errno_value, std::string_view doing)
    : Error(kind_of(errno_value), std::string(doing) + ": " + sys::errno_text(errno_value)),
      errno_value_(errno_value) {}

namespace sys {

std::string errno_text(int errno_value) {
#ifdef __GLIBC__
  const char* text = ::strerrordesc_np(errno_value);
#else
  const char* text = ::strerror(errno_value);  // musl's is as safe among threads
#endif
  return text != nullptr ? text : "error " + std::to_string(errno_value);
}

int check(int result, std::string_view doing) {
  if (result == -1) throw SystemError(errno, doing);
  return result;
}
long check(long result, std::string_view doing) {
  if (result == -1) throw SystemError(errno, doing);
  return result;
}

}
}
