#pragma once
// Checks a log from its first byte to its last, in constant memory: that every record is what was
// chained, and every checkpoint what was signed. The first record that is not as it was written is
// named, with what seems to have been done to it.
//
// What no signature covers yet is guarded by the chain alone: the last record of a log that has not
// been closed can be edited, and the records since its last checkpoint can be cut off, unless the
// caller knows of a later one (`known`, which the daemon's own log has of every sandbox that
// ended).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/record.h"

namespace mvm::audit {

enum class Wrong : uint8_t {
  Unreadable,  // no record: damaged, or a line of somebody else's
  Version,     // of a later version of mvm
  Edited,
  Removed,  // records that were before it are missing
  Inserted,
  Reordered,
  Truncated,  // the end is missing
  Signature,  // what was signed is not what lies there
  Key,        // signed by another key
  File,       // a file is missing, or is not the one its name says
};
std::string_view wrong_word(Wrong wrong);  // "unreadable", …

struct Problem {
  Wrong wrong = Wrong::Unreadable;
  std::string file;  // its name; empty: the log as a whole
  uint64_t line = 0;
  uint64_t seq = 0;  // 0: not known
  std::string what;  // for people
};

struct Verdict {
  std::optional<Problem> problem;  // nothing: all is as it was written
  uint64_t files = 0;
  uint64_t records = 0;
  uint64_t signatures = 0;
  Head head;  // the last good record
  bool closed = false;
  uint64_t unsigned_records = 0;  // since the last signature
  uint64_t torn_bytes = 0;        // of writes that were cut short, each noted in the chain
  uint64_t open_end = 0;          // bytes behind the last whole line, not noted yet
  uint64_t missed = 0;            // events that could not be recorded
  bool ok() const { return !problem; }
};

class Verifier {
 public:
  // Exported: all files in one, as `mvm audit export` writes them.
  enum class Layout : uint8_t { Files, Exported };
  Verifier(const crypto::PublicKey& authority, LogId log, Layout layout = Layout::Files,
           std::optional<Head> known = std::nullopt);

  void begin_file(std::string name, uint64_t number);
  void feed(ByteView data);  // of the file begun last
  Verdict finish();

 private:
  // A line, as far as it is needed when it is gone.
  struct Seen {
    uint64_t seq = 0;
    crypto::Digest hash{};
    crypto::Digest prev{};
    bool signature_holds = false;
    uint64_t line = 0;
    std::string file;
  };
  void take(std::string_view text);
  void end_line(std::string_view piece);
  void accept(const Line& line, const Seen& seen);
  bool accept_signed(const Line& line, const Seen& seen);
  bool accept_opening(const Line& line, const Seen& seen);
  Seen seen(std::string_view text, const Line& line) const;
  void judge(const Seen& suspect, const Seen* next);
  void found(Wrong wrong, const Seen& at, std::string what);

  crypto::PublicKey authority_;
  LogId log_;
  Layout layout_;
  std::optional<Head> known_;
  std::optional<crypto::PublicKey> key_;
  Verdict verdict_;
  std::string file_;
  uint64_t file_number_ = 0;
  bool gap_ = false;  // a file's number is not the next
  uint64_t line_number_ = 0;
  bool begins_file_ = true;
  std::string partial_;
  bool overlong_ = false;
  // Bytes since the last whole line, over all files.
  uint64_t torn_bytes_ = 0;
  crypto::Sha256 torn_hash_;
  std::optional<Seen> last_;
  std::optional<Seen> suspect_;
};

// The files of a log's directory.
Verdict verify_log(const std::string& directory, const LogId& log,
                   const crypto::PublicKey& authority, std::optional<Head> known = std::nullopt);

}
