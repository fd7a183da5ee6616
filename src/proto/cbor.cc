#include "mvm/proto/cbor.h"

#include <algorithm>

#include "mvm/base/error.h"

namespace mvm::proto {

// RFC 8949 §3.1: the major type is the top three bits of an item's first byte.
enum Major : uint8_t {
  kUnsigned,
  kNegative,
  kByteString,
  kTextString,
  kArray,
  kMap,
  kTag,
  kSimple
};
static constexpr uint8_t kFalse = 20;
static constexpr uint8_t kTrue = 21;
static constexpr uint8_t kNull = 22;
static constexpr size_t kMaxShortCount = 23;

bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = byte(i);
    if (first < 0x80) {
      ++i;
      continue;
    }
    size_t more = 0;
    uint32_t code = 0;
    uint32_t least = 0;
    if ((first & 0xE0) == 0xC0) {
      more = 1, code = first & 0x1FU, least = 0x80;
    } else if ((first & 0xF0) == 0xE0) {
      more = 2, code = first & 0x0FU, least = 0x800;
    } else if ((first & 0xF8) == 0xF0) {
      more = 3, code = first & 0x07U, least = 0x10000;
    } else {
      return false;
    }
    if (text.size() - i <= more) return false;
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
      code = (code << 6) | (byte(i + k) & 0x3FU);
    }
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
    i += more + 1;
  }
  return true;
}

// ---- writing --------------------------------------------------------------------------------

void CborWriter::head(uint8_t major, uint64_t value) {
  Writer out(*out_);
  const auto first = [&](uint8_t info) { out.u8(static_cast<uint8_t>((major << 5) | info)); };
  if (value <= kMaxShortCount) {
    first(static_cast<uint8_t>(value));
  } else if (value <= UINT8_MAX) {
    first(24);
    out.u8(static_cast<uint8_t>(value));
  } else if (value <= UINT16_MAX) {
    first(25);
    out.u16be(static_cast<uint16_t>(value));
  } else if (value <= UINT32_MAX) {
    first(26);
    out.u32be(static_cast<uint32_t>(value));
  } else {
    first(27);
    out.u64be(value);
  }
}

void CborWriter::integer(int64_t value) {
  if (value >= 0) {
    head(kUnsigned, static_cast<uint64_t>(value));
  } else {
    head(kNegative, ~static_cast<uint64_t>(value));  // -1 - n
  }
}

void CborWriter::string(std::string_view value) {
  head(is_utf8(value) ? kTextString : kByteString, value.size());
  Writer(*out_).text(value);
}

void CborWriter::boolean(bool value) { head(kSimple, value ? kTrue : kFalse); }
void CborWriter::null() { head(kSimple, kNull); }
void CborWriter::raw(ByteView item) { Writer(*out_).bytes(item); }

MapWriter::MapWriter(Bytes& out) : out_(&out), head_(out.size()) { CborWriter(out).map(0); }

MapWriter::~MapWriter() {
  if (count_ <= kMaxShortCount) {
    (*out_)[head_] = static_cast<std::byte>((kMap << 5) | count_);
    return;
  }
  constexpr uint8_t kCountInTheNextByte = 24;
  (*out_)[head_] = static_cast<std::byte>((kMap << 5) | kCountInTheNextByte);
  out_->insert(out_->begin() + static_cast<ptrdiff_t>(head_) + 1, static_cast<std::byte>(count_));
}

CborWriter MapWriter::field(std::string_view name) {
  MVM_ASSERT(count_ < kMaxMapFields);
  ++count_;
  CborWriter writer(*out_);
  writer.string(name);
  return writer;
}

// ---- reading --------------------------------------------------------------------------------

CborReader::Head CborReader::head() noexcept {
  const uint8_t first = in_.u8();
  Head out;
  out.major = static_cast<uint8_t>(first >> 5);
  const uint8_t info = first & 0x1F;
  switch (info) {
    case 24:
      out.value = in_.u8();
      break;
    case 25:
      out.value = in_.u16be();
      break;
    case 26:
      out.value = in_.u32be();
      break;
    case 27:
      out.value = in_.u64be();
      break;
    default:
      if (info > 27) in_.fail();  // reserved, or an indefinite length
      out.value = info;
  }
  // Simple values in more than one byte are floats or unassigned.
  if (out.major == kTag ||
      (out.major == kSimple && info != kFalse && info != kTrue && info != kNull))
    in_.fail();
  return in_ ? out : Head{};
}

uint64_t CborReader::head_of(uint8_t major) noexcept {
  const Head item = head();
  if (item.major != major) in_.fail();
  return in_ ? item.value : 0;
}

uint64_t CborReader::unsigned_integer(uint64_t limit) noexcept {
  const uint64_t value = head_of(kUnsigned);
  if (value > limit) in_.fail();
  return in_ ? value : 0;
}

int64_t CborReader::integer() noexcept {
  const Head item = head();
  if (item.major > kNegative || item.value > INT64_MAX) in_.fail();
  if (!in_) return 0;
  const auto value = static_cast<int64_t>(item.value);
  return item.major == kNegative ? -1 - value : value;
}

std::string_view CborReader::string(size_t limit) noexcept {
  const Head item = head();
  if ((item.major != kTextString && item.major != kByteString) || item.value > limit ||
      item.value > in_.remaining())
    in_.fail();
  if (!in_) return {};
  const std::string_view value = as_text(in_.bytes(static_cast<size_t>(item.value)));
  if (item.major == kTextString && !is_utf8(value)) in_.fail();
  return in_ ? value : std::string_view();
}

bool CborReader::boolean() noexcept {
  const uint64_t value = head_of(kSimple);
  if (value != kTrue && value != kFalse) in_.fail();
  return in_ && value == kTrue;
}

size_t CborReader::array(size_t limit) noexcept {
  const uint64_t count = head_of(kArray);
  if (count > limit || count > in_.remaining()) in_.fail();
  return in_ ? static_cast<size_t>(count) : 0;
}

size_t CborReader::map(size_t limit) noexcept {
  const uint64_t count = head_of(kMap);
  if (count > limit || count > in_.remaining() / 2) in_.fail();
  return in_ ? static_cast<size_t>(count) : 0;
}

ByteView CborReader::skip() noexcept {
  const ByteView start = in_.rest();
  // Items still to come at each level of nesting. Each turn takes at least one byte, so the input
  // bounds the work.
  std::array<uint64_t, kMaxCborDepth> left{};
  size_t depth = 0;
  do {
    const Head item = head();
    uint64_t inside = 0;
    if (item.major == kByteString || item.major == kTextString) {
      if (item.value > in_.remaining()) in_.fail();
      const std::string_view value = as_text(in_.bytes(in_ ? static_cast<size_t>(item.value) : 0));
      if (item.major == kTextString && !is_utf8(value)) in_.fail();
    } else if (item.major == kArray || item.major == kMap) {
      const uint64_t each = item.major == kMap ? 2 : 1;
      if (item.value > in_.remaining() / each) in_.fail();
      inside = in_ ? item.value * each : 0;
    }
    if (inside > 0) {
      if (depth == left.size()) {
        in_.fail();
      } else {
        left[depth++] = inside;
      }
    } else {
      while (depth > 0 && --left[depth - 1] == 0) --depth;
    }
  } while (in_ && depth > 0);
  if (!in_) return {};
  return start.first(start.size() - in_.remaining());
}

bool Fields::next() noexcept {
  if (left_ == 0 || !*in_) return false;
  --left_;
  name_ = in_->string(kMaxFieldName);
  const auto end = seen_.begin() + static_cast<std::ptrdiff_t>(seen_count_);
  if (std::find(seen_.begin(), end, name_) != end) in_->fail();
  if (!*in_) return false;
  seen_[seen_count_++] = name_;
  return true;
}

}
