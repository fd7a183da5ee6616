#pragma once
// errno ends here: a failed system call becomes a SystemError that says what was being done.

#include <string>
#include <string_view>

#include "mvm/base/error.h"

namespace mvm {

class SystemError : public Error {
 public:
  SystemError(int errno_value, std::string_view doing);
  int errno_value() const { return errno_value_; }

 private:
  int errno_value_;
};

namespace sys {

// "No such file or directory", thread-safe.
std::string errno_text(int errno_value);

// Returns `result`, or throws SystemError with the current errno when it is -1.
int check(int result, std::string_view doing);
long check(long result, std::string_view doing);

}
}
