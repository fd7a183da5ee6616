#include "builder_queue.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

namespace mvm::cli {

static constexpr size_t kDigits = 20;  // of any number of 64 bits, so that names sort as numbers do

static std::optional<uint64_t> number_of(const std::string& name) {
  return name.size() == kDigits ? parse_u64(name) : std::nullopt;
}

Ticket::Ticket(const store::Paths& paths) : directory_(paths.data() + "/builder.queue") {
  store::ensure_private_directory(directory_);
  // One after another: a number is seen by whoever takes the next one.
  const sys::Fd turn = sys::open_file(directory_, O_RDONLY | O_DIRECTORY);
  while (::flock(turn.get(), LOCK_EX) != 0)
    if (errno != EINTR) throw SystemError(errno, "locking " + directory_);
  uint64_t last = 0;
  for (const std::string& name : sys::list_directory(directory_))
    last = std::max(last, number_of(name).value_or(0));
  name_ = std::to_string(last + 1);
  name_.insert(0, kDigits - name_.size(), '0');
  auto lock = sys::try_lock_file(directory_ + "/" + name_);
  if (!lock) throw Error(Kind::Conflict, directory_ + "/" + name_ + " is locked");
  lock_ = std::move(*lock);
}

Ticket::~Ticket() { ::unlink((directory_ + "/" + name_).c_str()); }

bool Ticket::is_first() const {
  for (const std::string& name : sys::list_directory(directory_)) {
    if (!number_of(name) || name >= name_) continue;
    const std::string path = directory_ + "/" + name;
    const auto gone = sys::try_lock_file(path);
    if (!gone) return false;
    sys::remove_file(path);
  }
  return true;
}

}
