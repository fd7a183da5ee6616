#pragma once
// The account on disk, as bytes: a first record with the whole of it, then a record a change, each
// with its length and checksum. What does not check is the torn end of a write that was cut short,
// and nothing of it has happened.

#include <cstdint>
#include <optional>

#include "mvm/base/bytes.h"
#include "mvm/meter/account.h"

namespace mvm::meter {

inline constexpr size_t kMaxJournalRecord = size_t{1} << 20;
// Above this a journal is written anew, as one record.
inline constexpr size_t kJournalTurn = size_t{1} << 20;
// Nobody reads more of one.
inline constexpr size_t kMaxJournal = size_t{8} << 20;

// The beginning of a file.
Bytes encode_journal(const Account& account);
Bytes encode_record(const Record& record);

struct ReadJournal {
  Account account;
  size_t good = 0;  // bytes; what is behind them is torn
  bool torn = false;
};
// Nothing: it is no journal. An empty one is that of a sandbox that has used nothing.
std::optional<ReadJournal> read_journal(ByteView data);

// For Record::once; never 0.
uint64_t once_key(Provider provider, std::string_view id) noexcept;

}
