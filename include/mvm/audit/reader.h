#pragma once
// Reads a log's lines, and waits for more. Checks nothing but that a line is a record.

#include <functional>
#include <optional>
#include <string>

#include "mvm/audit/record.h"
#include "mvm/sys/fd.h"

namespace mvm::audit {

class Reader {
 public:
  // Files up to the number `after` are left out.
  explicit Reader(std::string directory, uint64_t after = 0);

  // The next line that is a record, without its line feed; the view and the text hold until the
  // next call. Nothing when there is no more, for now: lines that are no records, and what a writer
  // left half written, are stepped over.
  struct Read {
    std::string_view text;
    Line line;
  };
  std::optional<Read> next();

  // Waits until there may be more. `stop` readable, when not negative, ends the wait: false.
  // Begins to watch at the first call, which may therefore return at once.
  bool wait(int stop = -1);

 private:
  bool open_next_file();
  bool fill();

  std::string directory_;
  uint64_t number_ = 0;
  sys::Fd file_;
  sys::Fd watch_;
  uint64_t offset_ = 0;
  std::string buffer_;
  size_t consumed_ = 0;
};

// Calls `take` for each record from the first to the last.
void for_each_record(const std::string& directory,
                     const std::function<void(std::string_view text, const Line& line)>& take);

}
