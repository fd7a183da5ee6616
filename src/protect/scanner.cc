// Theory of operation. The buffer holds [history][held]: `done_` is where the clean bytes end that
// were handed out. Each feed appends, finds the triggers of what is held (trigger.h) and asks the
// detectors in order. A detector that read past the end of a stream that goes on has its trigger
// asked again later, and everything from there on stays held; otherwise what stays is the end of
// the last line, as far as a value could still begin there. Detectors look at most kHistory bytes
// back, which are kept, so what they decide does not depend on how the stream was cut.

#include "mvm/protect/scanner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dispatch.h"
#include "letters.h"
#include "trigger.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

constexpr size_t kPiece = size_t{32} * 1024;
constexpr size_t kBlock = 64;
constexpr size_t kPadding = 4 * kBlock;
constexpr size_t kCapacity = kHistory + kMaxHold + kPiece + 2 * kHistory;
// Most values are looked at one by one and are short: their scanner needs no more, and to touch
// more would cost more than the look.
constexpr size_t kSmall = size_t{4} * 1024 - kPadding;
// The longest start of a value that stands before its trigger: a webhook's address, a local part.
constexpr size_t kMaxStart = 96;
constexpr size_t kMarks = 40;  // and "12 de septiembre de ", "AB ", "+44 (" before what triggers

// From where the end of the text may be the start of a value.
size_t open_end(const char* text, size_t from, size_t end) {
  size_t at = end;
  const size_t least = end - std::min(end - from, kMaxStart);
  const auto part = [](char c) {
    return is(c, kAlnum | kLocal | kWordMark | kBase64) || c == ':' || c == '!' || c == '*' ||
           c == '~' || c == '^';
  };
  // The last letter may not have come whole.
  if (at > least && is(text[at - 1], kHigh)) {
    while (at > least && is_continuation(text[at - 1])) --at;
    if (at > least && is(text[at - 1], kHigh)) --at;
  }
  while (at > least) {
    const size_t letter = part(text[at - 1]) ? 1 : letter_at_end({text, at});
    if (letter == 0) break;
    at -= letter;
  }
  for (size_t i = 0; i < kMarks && at > from && text[at - 1] != '\n'; ++i) --at;
  return at;
}

}

Scanner::Scanner(ClassSet classes) : classes_(classes) {}

// Room for so many bytes; what is there stays.
void Scanner::reserve(size_t size) {
  if (buffer_ && size <= capacity_) return;
  capacity_ = size <= kSmall ? kSmall : kCapacity;
  auto larger = std::make_unique_for_overwrite<char[]>(capacity_ + kPadding);
  if (end_ > 0) std::memcpy(larger.get(), buffer_.get(), end_);
  buffer_ = std::move(larger);
}

void Scanner::feed(std::string_view bytes, ScanSink& sink) {
  reserve(kCapacity);
  while (!bytes.empty()) {
    make_room();
    size_t take = std::min({bytes.size(), kPiece, kCapacity - end_});
    // A value is decided at its longest, so that never more than that waits.
    if (held() < kMaxHold) take = std::min(take, std::max(kMaxHold - held(), size_t{1}));
    std::memcpy(buffer_.get() + end_, bytes.data(), take);
    bytes.remove_prefix(take);
    end_ += take;
    if (end_ < retry_at_) continue;
    std::memset(buffer_.get() + end_, 0, kPadding);
    scan(sink, false);
  }
}

void Scanner::finish(ScanSink& sink) {
  reserve(end_);
  std::memset(buffer_.get() + end_, 0, kPadding);
  scan(sink, true);
}

void Scanner::reset() noexcept {
  done_ = end_ = skip_ = retry_at_ = 0;
  base_ = 0;
}

void Scanner::whole(std::string_view first, std::string_view rest, ScanSink& sink) {
  reset();
  if (first.size() + rest.size() > kPiece) {
    feed(first, sink);
    feed(rest, sink);
    return finish(sink);
  }
  reserve(first.size() + rest.size());
  std::memcpy(buffer_.get(), first.data(), first.size());
  std::memcpy(buffer_.get() + first.size(), rest.data(), rest.size());
  end_ = first.size() + rest.size();
  finish(sink);
}

void Scanner::make_room() {
  if (end_ + kPiece <= kCapacity || done_ <= kHistory) return;
  const size_t drop = done_ - kHistory;
  std::memmove(buffer_.get(), buffer_.get() + drop, end_ - drop);
  done_ -= drop;
  end_ -= drop;
  skip_ -= std::min(skip_, drop);
  retry_at_ -= std::min(retry_at_, drop);
  base_ += drop;
}

void Scanner::hand_out(size_t until, ScanSink& sink) {
  if (until > done_) sink.clean({buffer_.get() + done_, until - done_});
  done_ = std::max(done_, until);
}

void Scanner::scan(ScanSink& sink, bool final) {
  const char* const text = buffer_.get();
  const Window window(text, end_, final);
  std::array<uint64_t, kCapacity / kBlock + 2> masks;
  const size_t first = done_;
  const size_t blocks = (end_ - first + kBlock - 1) / kBlock;
  find_triggers(text + first, blocks, first == 0 ? '\0' : text[first - 1], masks.data());

  retry_at_ = 0;
  for (size_t block = 0; block < blocks; ++block) {
    for (uint64_t mask = masks.at(block); mask != 0; mask &= mask - 1) {
      const size_t at = first + block * kBlock + static_cast<size_t>(std::countr_zero(mask));
      if (at < skip_) continue;
      window.forget();
      const Outcome outcome = examine(window, at, classes_);
      if (window.undecided()) {
        // What stands before the trigger may belong to it.
        const size_t hold = std::max(done_, open_end(text, done_, at));
        hand_out(hold, sink);
        // Not at every byte again, or a long value would cost its square; but within the bound.
        retry_at_ = std::min(end_ + (end_ - hold) / 8, hold + kMaxValue);
        return;
      }
      skip_ = std::max(skip_, outcome.resume);
      if (!outcome.found || outcome.found->start < done_) continue;
      const Hit& hit = *outcome.found;
      hand_out(hit.start, sink);
      const Finding finding{hit.kind, base_ + hit.start, hit.end - hit.start, hit.detail};
      done_ = hit.end;
      skip_ = std::max(skip_, hit.end);
      sink.found(finding, {text + hit.start, finding.length});
    }
  }
  hand_out(final ? end_ : std::max(done_, open_end(text, done_, end_)), sink);
}

std::vector<Finding> scan(std::string_view text, ClassSet classes) {
  struct Collect : ScanSink {
    std::vector<Finding> findings;
    void clean(std::string_view) override {}
    void found(const Finding& finding, std::string_view) override { findings.push_back(finding); }
  } sink;
  Scanner scanner(classes);
  scanner.feed(text, sink);
  scanner.finish(sink);
  return sink.findings;
}

}
