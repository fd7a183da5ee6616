// Theory of operation. Each form of each text is a needle. A sieve says of every two bytes whether
// some needle may start with them; nearly all places fall out there. At the others the needles of
// that first letter are compared one by one (letters.h), where a letter may be written in several
// ways, but at any place in only one of them, so that nothing is tried twice. The same needles
// serve text of bytes and text in UTF-16, in either order.

#include "mvm/secret/finder.h"

#include <algorithm>
#include <string>

#include "mvm/base/error.h"
#include "mvm/secret/text.h"

#include "letters.h"

namespace mvm::secret {
namespace {

constexpr size_t kBlock = 2048;  // of memory for texts that are no secrets

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr std::string_view kLowerDigits = "0123456789abcdef";
constexpr std::string_view kUpperDigits = "0123456789ABCDEF";

std::string hex_digits(std::string_view text, std::string_view digits) {
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) {
    out += digits[static_cast<uint8_t>(c) >> 4];
    out += digits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

// The letters that depend on nothing but `text`, which has `before` bytes (modulo 3) in front.
std::string base64_core(std::string_view text, size_t before) {
  std::string padded(before, '\0');
  padded.reserve(before + text.size());
  padded += text;
  std::string letters = base64(padded);
  wipe(padded);
  const size_t first = (before * 8 + 5) / 6;
  const size_t last = (before + text.size()) * 8 / 6;
  std::string core = letters.substr(first, last - first);
  wipe(letters);
  return core;
}

}

std::string_view Finder::keep(std::string_view text) {
  if (memory_ == Memory::Locked) return locked_.keep(text);
  if (plain_.empty() || text.size() > plain_left_) {
    plain_left_ = std::max(kBlock, text.size());
    plain_.push_back(std::make_unique_for_overwrite<char[]>(plain_left_));
    block_ = plain_left_;
  }
  char* const to = plain_.back().get() + (block_ - plain_left_);
  text.copy(to, text.size());
  plain_left_ -= text.size();
  return {to, text.size()};
}

void Finder::add_base64(std::string_view text, uint32_t id) {
  for (size_t before = 0; before < 3; ++before) {
    std::string core = base64_core(text, before);
    add({keep(core), id, Form::Base64});
    wipe(core);
  }
}

void Finder::add_hex(std::string_view text, uint32_t id) {
  std::string digits = hex_digits(text, kLowerDigits);
  add({keep(digits), id, Form::Hex});
  wipe(digits);
}

void Finder::add(std::string_view text, uint32_t id, Written written) {
  MVM_ASSERT(text.size() >= kMinText);
  const std::string_view kept = keep(text);
  add({kept, id, Form::Plain});
  if (written == Written::Never) return;
  add({kept, id, Form::Escaped});
  add_base64(text, id);
  add_hex(text, id);
  if (written == Written::Once) return;
  const auto again = [&](std::string once, bool hex) {
    add_base64(once, id);
    if (hex) add_hex(once, id);
    wipe(once);
  };
  for (size_t before = 0; before < 3; ++before) {
    std::string core = base64_core(text, before);
    std::string url = core;
    std::ranges::replace(url, '+', '-');
    std::ranges::replace(url, '/', '_');
    if (url != core) again(std::move(url), true);
    again(std::move(core), true);
  }
  for (const std::string_view digits : {kLowerDigits, kUpperDigits})
    again(hex_digits(text, digits), false);
  for (const Writing writing : {Writing::Json, Writing::Percent})
    if (std::string escaped = secret::written(text, writing); escaped != text)
      again(std::move(escaped), false);
  if (!is_ascii(text)) return;
  // In either order of bytes: of the other one, this is all but the first.
  std::string units = in_units(text, Units::Little);
  units.pop_back();
  again(std::move(units), false);
}

void Finder::include(const Finder& other) {
  for (const Needle& needle : other.needles_) add(needle);
}

void Finder::begin_with(char first, uint16_t needle) {
  const Needle& of = needles_[needle];
  // A digit in hexadecimal may be of either case; escapes begin with neither letter nor digit.
  const char second = of.text[1];
  const bool alone = first == of.text[0] && is_alnum(first) && is_alnum(second) &&
                     (of.form != Form::Hex || second <= '9');
  links_.push_back({needle, alone ? second : '\0', 0});
  const auto link = static_cast<uint32_t>(links_.size());
  uint32_t& last = last_link_[static_cast<uint8_t>(first)];
  if (last == 0)
    first_link_[static_cast<uint8_t>(first)] = link;
  else
    links_[last - 1U].next = link;
  last = link;
}

void Finder::add(const Needle& needle) {
  MVM_ASSERT(needles_.size() < UINT16_MAX);
  const auto index = static_cast<uint16_t>(needles_.size());
  needles_.push_back(needle);
  const std::string_view text = needle.text;
  const auto unit = [&](uint32_t letter) {
    const auto high = static_cast<char>(letter >> 8);
    const auto low = static_cast<char>(letter & 255);
    pairs_.add(high, low);
    pairs_.add(low, high);
  };
  for (const char first : beginnings(needle.form, text[0])) {
    begin_with(first, index);
    for (const char second : continuations(needle.form, first, text[0], text[1]))
      pairs_.add(first, second);
    if (static_cast<uint8_t>(first) < 0x80) unit(static_cast<uint8_t>(first));
  }
  if (static_cast<uint8_t>(text[0]) >= 0x80) {
    begin_with(kOtherLetter, index);
    unit(utf16(character_at(text, 0).code).first);
  }
}

// The longest hit at the beginning of `text`, which has two bytes at the least. `more`: there may
// be one, or a longer one, when more comes.
Finder::Hit Finder::at_start(std::string_view text, bool& more) const noexcept {
  Hit best;
  const auto try_as = [&]<Units kUnits>() {
    const Letters<kUnits> letters(text);
    uint32_t link = first_link_[static_cast<uint8_t>(letters[0])];
    if (link == 0) return;
    // Of UTF-16 only the first letter has been looked at.
    const bool known = letters.kWide && letters.size() > 1 && letters[0] != kOtherLetter &&
                       letters[1] != kOtherLetter;
    if (known && !pairs_.may_hold(letters[0], letters[1])) return;
    const char second = letters.size() > 1 && is_alnum(letters[1]) ? letters[1] : '\0';
    for (; link != 0; link = links_[link - 1U].next) {
      const Link& entry = links_[link - 1U];
      if (second != '\0' && entry.second != '\0' && second != entry.second) continue;
      const Needle& needle = needles_[entry.needle];
      const Taken taken = compare(needle.text, needle.form, letters);
      more = more || taken.step == Step::More;
      const size_t length = letters.bytes(taken.length);
      if (taken.step == Step::Yes && length > best.length)
        best = {Hit::Kind::Whole, 0, length, needle.id, needle.form, kUnits};
    }
  };
  const bool has_zero = text[0] == '\0' || text[1] == '\0';  // as no text in UTF-8 has
  if (!has_zero) try_as.template operator()<Units::Bytes>();
  if (has_zero || first_link_[static_cast<uint8_t>(kOtherLetter)] != 0) {
    try_as.template operator()<Units::Little>();
    try_as.template operator()<Units::Big>();
  }
  return best;
}

// The next place whose two bytes some hit may start with; the text's end when there is none.
size_t Finder::next_start(std::string_view text, size_t at) const noexcept {
  if (at >= text.size()) return at;
  const char* const end = text.data() + text.size();
  for (const char* next = text.data() + at + 1; next < end; ++next)
    if (pairs_.may_hold(next[-1], next[0])) return static_cast<size_t>(next - 1 - text.data());
  return text.size();
}

Finder::Hit Finder::find(std::string_view text, size_t from, bool last) const noexcept {
  const auto partial = [&](size_t at) { return Hit{Hit::Kind::Partial, at, text.size() - at}; };
  for (size_t at = from; (at = next_start(text, at)) < text.size(); ++at) {
    bool more = false;
    Hit best = at_start(text.substr(at), more);
    if (more && !last) return partial(at);
    best.at = at;
    if (best.kind == Hit::Kind::Whole) return best;
  }
  const bool may_begin = from < text.size() && pairs_.begins(text.back());
  return may_begin && !last ? partial(text.size() - 1) : Hit{};
}

}
