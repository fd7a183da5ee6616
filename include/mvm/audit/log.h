#pragma once
// A log on disk: a directory with files 000001.jsonl, 000002.jsonl, …, each only ever appended to.
//
// Who opens a log begins a new file with a new key and leaves the older files as they are. What a
// writer that was killed left behind its last whole line stays where it is, and the new file's
// first record says how many bytes that is and what their hash is: nothing is lost, and nothing can
// be slipped in.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mvm/audit/record.h"
#include "mvm/sys/fd.h"

namespace mvm::audit {

inline constexpr std::string_view kDaemonLog = "daemon";

std::string file_name(uint64_t number);
// The numbers of a log's files, rising; other names are not looked at. A directory that does not
// exist has none.
std::vector<uint64_t> file_numbers(const std::string& directory);

// The end of a log as it lies there, found without reading more than its last lines.
struct End {
  uint64_t file = 0;  // the last one's number; 0: there is none
  Head head;          // seq 0: no record yet
  Torn torn;          // behind the head
  bool closed = false;
};
End find_end(const std::string& directory);

// A log opened for writing; what a Writer is made of, and what the daemon hands a sandbox process.
struct Session {
  sys::Fd directory;  // O_DIRECTORY: where the next files go
  sys::Fd file;       // O_WRONLY | O_APPEND, at its end
  LogId log;
  uint64_t number = 1;  // of the file
  uint64_t file_size = 0;
  uint64_t size = 0;  // of all files, in bytes
  Position next;
  crypto::SigningKey key;
};

// Begins a new file in `directory`, which exists and is ours alone. `authority` signs its first
// record, which names `key`; from then on `key` signs.
Session open_log(const std::string& directory, const LogId& log,
                 const crypto::SigningKey& authority, crypto::SigningKey key);

// Closes the log of a writer that is gone, unless it did so itself, and puts it on the disk.
// Returns its last record; nothing when there is no log.
std::optional<Head> seal(const std::string& directory, const LogId& log,
                         const crypto::SigningKey& authority);

// The daemon's key in `directory`, made when it is not there: "key" (mode 0600) and "key.pub"
// (PEM).
crypto::SigningKey authority_key(const std::string& directory);
// Throws Error{NotFound} naming the file, or Error{Invalid}.
crypto::PublicKey read_public_key(const std::string& file);

}
