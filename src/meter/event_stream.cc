// application/vnd.amazon.eventstream, as the AWS SDKs' common reference describes it: big-endian
// total length, headers' length, CRC-32 of these eight bytes; headers; payload; CRC-32 of all that.
#include <algorithm>

#include "mvm/meter/reader.h"

#include "crc32.h"

namespace mvm::meter {
namespace {

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}

void EventStreamReader::feed(std::string_view bytes, Tally& tally) {
  while (!bytes.empty() && !failed_) {
    const bool fixed = part_ == Part::Prelude || part_ == Part::Checksum;
    const size_t length = part_ == Part::Prelude ? kPrelude : part_ == Part::Checksum ? 4 : left_;
    const size_t taken = std::min(length - (fixed ? collected_ : 0), bytes.size());
    const std::string_view piece = bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (fixed) {
      std::ranges::copy(piece, prelude_.begin() + static_cast<std::ptrdiff_t>(collected_));
      collected_ += taken;
      if (collected_ < length) return;
    } else {
      crc_ = crc32(crc_, piece);
      if (part_ == Part::Payload) document_.outer.feed(piece, document_);
      left_ -= taken;
      if (left_ != 0) return;
    }
    next_part(tally);
  }
}

// What was read is whole; parts without length are passed over.
void EventStreamReader::next_part(Tally& tally) {
  const auto number = [this](size_t at) {
    return Reader(as_bytes(std::string_view(prelude_.data() + at, 4))).u32be();
  };
  collected_ = 0;
  switch (part_) {
    case Part::Prelude: {
      const uint32_t total = number(0);
      const uint32_t headers = number(4);
      constexpr uint32_t kFrame = kPrelude + 4;
      if (number(8) != crc32(0, {prelude_.data(), 8}) || total < kFrame || total > kMaxMessage ||
          headers > kMaxHeaders || headers > total - kFrame) {
        failed_ = true;
        return;
      }
      crc_ = crc32(0, {prelude_.data(), kPrelude});
      headers_ = headers;
      payload_ = total - kFrame - headers;
      document_.begin(tally);
      part_ = Part::Headers;
      left_ = headers_;
      if (left_ == 0) next_part(tally);
      return;
    }
    case Part::Headers:
      part_ = Part::Payload;
      left_ = payload_;
      if (left_ == 0) next_part(tally);
      return;
    case Part::Payload:
      part_ = Part::Checksum;
      return;
    case Part::Checksum:
      part_ = Part::Prelude;
      if (number(0) != crc_)
        failed_ = true;
      else
        document_.end(tally);
      return;
  }
}

void EventStreamReader::Payload::begin(Tally& tally) {
  tally_ = &tally;
  outer.reset();
  inner_.reset();
  bits_ = held_ = 0;
}

void EventStreamReader::Payload::end(Tally& tally) {
  outer.finish(*this);
  inner_.finish(tally);
}

void EventStreamReader::Payload::number(std::string_view path, std::string_view text) {
  tally_->number(path, text);
}
void EventStreamReader::Payload::literal(std::string_view path, std::string_view word) {
  tally_->literal(path, word);
}
void EventStreamReader::Payload::string(std::string_view path, std::string_view text) {
  if (path != "bytes") tally_->string(path, text);
}
void EventStreamReader::Payload::container(std::string_view path, bool empty) {
  tally_->container(path, empty);
}

void EventStreamReader::Payload::document_end() { tally_->document_end(); }

void EventStreamReader::Payload::string_bytes(std::string_view path, std::string_view bytes) {
  if (path != "bytes") return;
  for (const char c : bytes) {
    const int value = base64_value(c);
    if (value < 0) continue;  // "=" at the end, and the backslash of an escaped "/"
    bits_ = (bits_ << 6) | static_cast<uint32_t>(value);
    held_ += 6;
    if (held_ < 8) continue;
    held_ -= 8;
    const char byte = static_cast<char>((bits_ >> held_) & 0xff);
    if (!inner_.failed()) inner_.feed({&byte, 1}, *tally_);
  }
}

}
