// UTF-16 on the outside, UTF-8 within (RFC 2781). Everything else passes to the inner rewriter as
// it is; what it is, the first bytes tell.

#include <utility>

#include "bodies.h"
#include "unicode.h"

namespace mvm::protect {
namespace {

constexpr size_t kFirstBytes = 4;

enum class Units : uint8_t { Bytes, LittleEndian, BigEndian };

// RFC 8259 knows documents of the time when they could be UTF-16: ASCII beside NUL.
Units units_of(const std::string& charset, std::string_view first) {
  if (charset == "utf-16le") return Units::LittleEndian;
  if (charset == "utf-16be") return Units::BigEndian;
  if (first.starts_with("\xff\xfe")) return Units::LittleEndian;
  if (first.starts_with("\xfe\xff")) return Units::BigEndian;
  if (first.size() >= 2 && first[0] == '\0' && first[1] != '\0') return Units::BigEndian;
  if (first.size() >= 2 && first[0] != '\0' && first[1] == '\0') return Units::LittleEndian;
  return charset == "utf-16" ? Units::BigEndian : Units::Bytes;
}

class UnicodeRewriter final : public BodyRewriter {
 public:
  UnicodeRewriter(std::string charset, std::unique_ptr<BodyRewriter> inner)
      : charset_(std::move(charset)), inner_(std::move(inner)) {}

  bool feed(std::string_view bytes, std::string& out) override {
    if (begun_) return pass(bytes, out);
    first_ += bytes;
    return first_.size() < kFirstBytes || begin(out);
  }
  bool finish(std::string& out) override {
    if (!begun_ && !begin(out)) return false;
    if (!odd_.empty() || high_ != 0) return false;
    if (units_ == Units::Bytes) return inner_->finish(out);
    std::string made;
    return inner_->finish(made) && give(made, out, true);
  }

 private:
  bool begin(std::string& out) {
    begun_ = true;
    units_ = units_of(charset_, first_);
    return pass(std::exchange(first_, {}), out);
  }

  bool pass(std::string_view bytes, std::string& out) {
    if (units_ == Units::Bytes) return inner_->feed(bytes, out);
    std::string text;
    return decode(bytes, text) && through(text, out);
  }

  bool through(std::string_view text, std::string& out) {
    std::string made;
    return inner_->feed(text, made) && give(made, out, false);
  }

  bool decode(std::string_view bytes, std::string& text) {
    for (const char c : bytes) {
      odd_ += c;
      if (odd_.size() < 2) continue;
      const auto first = static_cast<uint8_t>(odd_[0]);
      const auto second = static_cast<uint8_t>(odd_[1]);
      odd_.clear();
      const uint32_t unit =
          units_ == Units::BigEndian ? first * 256U + second : second * 256U + first;
      if (unit == 0) return false;  // no text has it; UTF-32 would
      if (high_ != 0) {
        if (unit < 0xdc00 || unit > 0xdfff) return false;
        append_utf8(text, 0x10000 + ((high_ - 0xd800) << 10) + (unit - 0xdc00));
        high_ = 0;
      } else if (unit >= 0xd800 && unit < 0xdc00) {
        high_ = unit;
      } else if (is_surrogate(unit)) {
        return false;
      } else {
        append_utf8(text, unit);
      }
    }
    return true;
  }

  void unit(uint32_t value, std::string& out) const {
    const char high = static_cast<char>(value >> 8);
    const char low = static_cast<char>(value & 255);
    out += units_ == Units::BigEndian ? high : low;
    out += units_ == Units::BigEndian ? low : high;
  }

  // What comes from within is UTF-8 of ours, in pieces that may end anywhere.
  bool give(std::string_view made, std::string& out, bool last) {
    made_ += made;
    size_t at = 0;
    while (at < made_.size()) {
      const auto lead = static_cast<uint8_t>(made_[at]);
      size_t length = 1;
      if (lead >= 0xf0) {
        length = 4;
      } else if (lead >= 0xe0) {
        length = 3;
      } else if (lead >= 0xc0) {
        length = 2;
      }
      if (at + length > made_.size()) break;
      uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
      for (size_t i = 1; i < length; ++i)
        code = code << 6 | (static_cast<uint8_t>(made_[at + i]) & 63U);
      if (code >= 0x10000) {
        unit(0xd800 + ((code - 0x10000) >> 10), out);
        unit(0xdc00 + ((code - 0x10000) & 0x3ff), out);
      } else {
        unit(code, out);
      }
      at += length;
    }
    made_.erase(0, at);
    return !last || made_.empty();
  }

  std::string charset_;
  std::unique_ptr<BodyRewriter> inner_;
  bool begun_ = false;  // its units are known
  Units units_ = Units::Bytes;
  std::string first_;
  std::string odd_;    // half a unit
  uint32_t high_ = 0;  // half a pair
  std::string made_;   // part of a character
};

}

std::unique_ptr<BodyRewriter> unicode_rewriter(const std::string& charset,
                                               std::unique_ptr<BodyRewriter> inner) {
  return std::make_unique<UnicodeRewriter>(charset, std::move(inner));
}

}
