#pragma once
// Every detector in one pass over a stream. Bytes go in as they come; findings come out in order,
// never overlapping, and are the same however the stream was cut.
//
// What is held back: nothing after a line's end; else the unfinished word or number at the end of
// what was fed, and a started private key, at most kMaxHold bytes.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "mvm/protect/finding.h"

namespace mvm::protect {

// The longest value that is found as one (a private key); what is longer is found up to here.
inline constexpr size_t kMaxValue = size_t{16} * 1024;
// Most bytes a scanner keeps to itself between two feeds.
inline constexpr size_t kMaxHold = kMaxValue + 256;

// Receives the stream again, cut into what is clean and what was found. Views end with the call.
class ScanSink {
 public:
  virtual ~ScanSink() = default;
  virtual void clean(std::string_view bytes) = 0;
  virtual void found(const Finding& finding, std::string_view value) = 0;
};

class Scanner {
 public:
  explicit Scanner(ClassSet classes = ClassSet::all());

  void feed(std::string_view bytes, ScanSink& sink);
  // The stream ends here: decides and hands out all that was held back. Feed no more.
  void finish(ScanSink& sink);
  // For another stream, with the memory of this one.
  void reset() noexcept;
  // A stream that is whole already: as reset(), feed() of both and finish(), and faster.
  void whole(std::string_view first, std::string_view rest, ScanSink& sink);

  size_t held() const noexcept { return end_ - done_; }

 private:
  void scan(ScanSink& sink, bool final);
  void hand_out(size_t until, ScanSink& sink);
  void reserve(size_t size);
  void make_room();

  ClassSet classes_;
  std::unique_ptr<char[]> buffer_;  // history, then what is held, then zeroes
  size_t capacity_ = 0;             // without the zeroes
  size_t done_ = 0;                 // handed out up to here
  size_t end_ = 0;
  size_t skip_ = 0;      // triggers before this are answered
  size_t retry_at_ = 0;  // not worth another look before this many bytes are there
  uint64_t base_ = 0;    // the stream's offset of buffer_[0]
};

// The whole text at once.
std::vector<Finding> scan(std::string_view text, ClassSet classes = ClassSet::all());

}
