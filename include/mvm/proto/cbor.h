#pragma once
// The part of CBOR (RFC 8949) that mvm's control messages need: definite lengths, integers of 64
// bits, strings, arrays, maps with string keys, true, false and null. No tags, no floats, no
// indefinite lengths; a peer that sends those gets a decode error.
//
// Strings: what the operating system takes as bytes (arguments, environment, paths) need not be
// UTF-8. The writer sends a text string when the content is valid UTF-8 and a byte string when it
// is not; the reader's string() takes either, and refuses a text string that lies.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/bytes.h"

namespace mvm::proto {

inline constexpr size_t kMaxCborDepth = 16;
inline constexpr size_t kMaxMapFields = 64;  // of a message; maps of user data have their own bound
inline constexpr size_t kMaxFieldName = 64;

bool is_utf8(std::string_view text) noexcept;  // RFC 3629: shortest form, no surrogates

class CborWriter {
 public:
  explicit CborWriter(Bytes& out) noexcept : out_(&out) {}
  void unsigned_integer(uint64_t value) { head(0, value); }
  void integer(int64_t value);
  void string(std::string_view value);
  void boolean(bool value);
  void null();
  void array(size_t count) { head(4, count); }
  void map(size_t count) { head(5, count); }
  void raw(ByteView item);  // one item, already encoded

 private:
  void head(uint8_t major, uint64_t value);
  Bytes* out_;
};

// Writes one map of named fields, counting them itself: at most as many as are read, kMaxMapFields,
// and in the shortest form whatever their number. Open the next nested map only after field() has
// written its name.
class MapWriter {
 public:
  explicit MapWriter(Bytes& out);
  ~MapWriter();
  MapWriter(const MapWriter&) = delete;
  MapWriter& operator=(const MapWriter&) = delete;

  CborWriter field(std::string_view name);  // write exactly one item to what it returns
  void integer(std::string_view name, int64_t value) { field(name).integer(value); }
  void unsigned_integer(std::string_view name, uint64_t value) {
    field(name).unsigned_integer(value);
  }
  void string(std::string_view name, std::string_view value) { field(name).string(value); }
  void boolean(std::string_view name, bool value) { field(name).boolean(value); }

 private:
  Bytes* out_;
  size_t head_;
  size_t count_ = 0;
};

// Sticky, like Reader: after the first fault everything reads as zero or empty, and one check at
// the end decides. Never recurses; a count is believed only when that many bytes are left.
class CborReader {
 public:
  explicit CborReader(ByteView data) noexcept : in_(data) {}

  uint64_t unsigned_integer(uint64_t limit = UINT64_MAX) noexcept;
  int64_t integer() noexcept;
  std::string_view string(size_t limit) noexcept;  // a view into the input
  bool boolean() noexcept;
  size_t array(size_t limit) noexcept;  // how many items follow
  size_t map(size_t limit) noexcept;    // how many pairs follow
  // Steps over one item of any kind, and returns its bytes.
  ByteView skip() noexcept;

  void fail() noexcept { in_.fail(); }
  bool at_end() const noexcept { return in_.remaining() == 0; }
  explicit operator bool() const noexcept { return static_cast<bool>(in_); }

 private:
  struct Head {
    uint8_t major = 0;
    uint64_t value = 0;
  };
  Head head() noexcept;
  uint64_t head_of(uint8_t major) noexcept;

  Reader in_;
};

// Walks the map of a message: for (Fields field(in); field.next();) if (field.is("name")) ...;
// Every field must be read or skipped. A name that comes twice is a fault.
class Fields {
 public:
  explicit Fields(CborReader& in) noexcept : in_(&in), left_(in.map(kMaxMapFields)) {}
  bool next() noexcept;
  bool is(std::string_view name) const noexcept { return name_ == name; }
  void skip() noexcept { in_->skip(); }

 private:
  CborReader* in_;
  size_t left_;
  std::string_view name_;
  size_t seen_count_ = 0;
  std::array<std::string_view, kMaxMapFields> seen_;
};

}
