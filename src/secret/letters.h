#pragma once
// A known text compared with others, letter by letter, in each of the ways that it may be written.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "mvm/secret/finder.h"

namespace mvm::secret {

// What stands for a letter of UTF-16 that is not ASCII. No text in UTF-8 has this byte.
inline constexpr char kOtherLetter = '\xff';

enum class Step : uint8_t { No, More, Yes };
struct Taken {
  Step step = Step::No;
  size_t length = 0;  // in letters
};

// Text as letters: of one byte each, or of two in UTF-16.
template <Units kUnits>
class Letters {
 public:
  static constexpr bool kWide = kUnits != Units::Bytes;

  explicit Letters(std::string_view text) : text_(text) {}
  size_t size() const noexcept { return kWide ? text_.size() / 2 : text_.size(); }
  uint32_t unit(size_t at) const noexcept {
    const auto byte = [&](size_t i) { return static_cast<uint8_t>(text_[i]); };
    if constexpr (!kWide) return byte(at);
    const uint32_t first = byte(2 * at);
    const uint32_t second = byte(2 * at + 1);
    return kUnits == Units::Big ? first << 8 | second : second << 8 | first;
  }
  char operator[](size_t at) const noexcept {
    if constexpr (!kWide) return text_[at];
    const uint32_t letter = unit(at);
    return letter < 0x80 ? static_cast<char>(letter) : kOtherLetter;
  }
  static size_t bytes(size_t letters) noexcept { return kWide ? 2 * letters : letters; }
  std::string_view text() const noexcept { return text_; }

 private:
  std::string_view text_;
};

// `needle`, which is UTF-8, at the beginning of `text`.
template <Units kUnits>
Taken compare(std::string_view needle, Form form, const Letters<kUnits>& text) noexcept;

// What may stand first where `letter` is wanted.
std::string beginnings(Form form, char letter);
// What may stand second, behind `first`, where the needle begins with `letter` and goes on with
// `next`.
std::string continuations(Form form, char first, char letter, char next);

// The character that begins at `at`, as UTF-8; a byte by itself where that is none.
struct Character {
  uint32_t code;
  size_t length;
};
Character character_at(std::string_view text, size_t at) noexcept;

// The one or two units of UTF-16 that a character is written in.
struct Pair {
  uint32_t first;
  uint32_t second = 0;  // none
};
Pair utf16(uint32_t code) noexcept;

}
