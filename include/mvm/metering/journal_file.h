#pragma once
// The journal of a sandbox's use of AI, as a file of its data directory. One process writes it: the
// sandbox's while it runs, else the daemon. Whoever reads sees whole records.
//
// A record is one write() of a file opened to append, so that a process that is killed has written
// all of it or nothing that counts. A file that has grown is written anew under another name and
// put into its place. Nothing waits for the disk: what this guards against is the end of a process,
// and after a power failure a budget may be a few seconds behind (decision 17).

#include <optional>
#include <string>

#include "mvm/meter/account.h"
#include "mvm/sys/fd.h"

namespace mvm::metering {

inline constexpr const char* kJournalName = "ai-usage";

class JournalFile {
 public:
  // Reads what is there, or begins. `directory` is borrowed. Throws Error, of kind Invalid when the
  // file is no journal.
  explicit JournalFile(int directory);

  // What it held when it was opened.
  const meter::Account& account() const noexcept { return account_; }
  meter::Account take_account() noexcept { return std::move(account_); }

  // False: it is not on record. `before` is the account that the record will change.
  bool keep(const meter::Record& record, const meter::Account& before) noexcept;
  // Why the last one was not kept.
  const std::string& why() const noexcept { return why_; }

 private:
  void turn(const meter::Account& account, ByteView record);

  int directory_;
  sys::Fd file_;
  size_t size_ = 0;
  bool broken_ = false;  // it may end in part of a record
  meter::Account account_;
  std::string why_;
};

// The account of a sandbox's data directory; nothing where none was ever begun. Throws as above.
std::optional<meter::Account> read_account(const std::string& directory);

}
