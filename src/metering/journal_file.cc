#include "mvm/metering/journal_file.h"

#include <cerrno>
#include <span>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/meter/journal.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::metering {
namespace {

meter::ReadJournal parse(ByteView data) {
  auto read = meter::read_journal(data);
  if (!read)
    throw Error(Kind::Invalid,
                "the sandbox's record of its use of AI is damaged; without the file " +
                    std::string(kJournalName) + " in its data directory it begins to count anew");
  return std::move(*read);
}

Bytes read_all(int fd) {
  const uint64_t size = sys::file_size(fd);
  if (size > meter::kMaxJournal)
    throw Error(Kind::Invalid, std::string(kJournalName) + " is larger than it can be");
  Bytes data(size);
  size_t got = 0;
  while (got < data.size()) {
    const size_t count = sys::pread_some(fd, std::span(data).subspan(got), got);
    if (count == 0) break;
    got += count;
  }
  data.resize(got);
  return data;
}

// By another name it would be another sandbox's.
void require_ours(int fd) {
  struct stat status{};
  sys::check(::fstat(fd, &status), std::string("looking at ") + kJournalName);
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
    throw Error(Kind::Denied, std::string(kJournalName) +
                                  " is not mvm's own file: a FIFO, a device or one that has other "
                                  "names too; remove it and try again");
}

}

JournalFile::JournalFile(int directory) : directory_(directory) {
  if (::faccessat(directory, kJournalName, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
    file_ = sys::open_at(directory, kJournalName, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
    require_ours(file_.get());
    const Bytes data = read_all(file_.get());
    auto read = parse(data);
    account_ = std::move(read.account);
    size_ = read.good;
    if (read.good != 0 && !read.torn) return;
  } else if (errno != ENOENT) {
    sys::check(-1, std::string("looking for ") + kJournalName);
  }
  turn(account_, {});
}

// A new file with the whole account, and `record` behind it.
void JournalFile::turn(const meter::Account& account, ByteView record) {
  const std::string temporary = std::string(kJournalName) + ".new";
  ::unlinkat(directory_, temporary.c_str(), 0);
  sys::Fd file =
      sys::open_at(directory_, temporary, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW);
  Bytes data = meter::encode_journal(account);
  data.insert(data.end(), record.begin(), record.end());
  sys::write_all(file.get(), data);
  // Before its name: after a power failure there is the old file or the new, not an empty one.
  sys::check(sys::uninterrupted([&] { return ::fdatasync(file.get()); }),
             std::string("syncing ") + kJournalName);
  sys::check(::renameat(directory_, temporary.c_str(), directory_, kJournalName),
             std::string("renaming ") + kJournalName);
  file_ = std::move(file);
  size_ = data.size();
  broken_ = false;
}

bool JournalFile::keep(const meter::Record& record, const meter::Account& before) noexcept {
  try {
    const Bytes data = meter::encode_record(record);
    if (broken_ || size_ + data.size() > meter::kJournalTurn) {
      turn(before, data);
      return true;
    }
    broken_ = true;
    sys::write_all(file_.get(), data);
    broken_ = false;
    size_ += data.size();
    return true;
  } catch (const std::exception& error) {
    why_ = error.what();
    return false;
  }
}

std::optional<meter::Account> read_account(const std::string& directory) {
  const std::string path = directory + "/" + kJournalName;
  if (!sys::exists(path)) return std::nullopt;
  return parse(read_all(sys::open_own_file(path, O_RDONLY).get())).account;
}

}
