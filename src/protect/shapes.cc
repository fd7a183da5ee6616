// The one table of number forms, by the lengths of their groups.

#include "shapes.h"

#include <array>
#include <vector>

#include "context.h"
#include "letters.h"

namespace mvm::protect {
namespace {

constexpr size_t kSlots = 1024;
constexpr size_t kMaxShapeGroups = 8;

struct Entry {
  uint64_t key = 0;  // lengths of groups, 5 bits each
  std::vector<const Shape*> shapes;
};

struct Table {
  // By the length of the first group those of the second; of all lengths where the first is alone.
  std::array<uint32_t, 32> seconds{};
  std::array<Entry, kSlots> entries;
};

uint64_t add_length(uint64_t key, size_t length) { return (key << 5) | length; }
size_t slot_of(uint64_t key) { return (key * 0x9e3779b97f4a7c15ULL) >> 54; }

uint64_t key_of(std::string_view form, Table& table) {
  uint64_t key = 0;
  size_t length = 0;
  size_t first = 0;
  size_t groups = 0;
  const auto flush = [&] {
    if (length == 0) return;
    key = add_length(key, length);
    if (++groups == 1) first = length;
    if (groups == 2) table.seconds.at(first) |= uint32_t{1} << length;
    length = 0;
  };
  for (const char c : form) {
    if (is(c, kDigit))
      length = length * 10 + static_cast<size_t>(c - '0');
    else
      flush();
  }
  flush();
  if (groups == 1) table.seconds.at(first) = ~uint32_t{0};
  return key;
}

const Table& table() {
  static const Table* const made = [] {
    auto* out = new Table;  // lives as long as the process
    for (const auto rows :
         {bank_shapes(), us_uk_shapes(), european_shapes(), world_shapes(), phone_shapes()}) {
      for (const Shape& shape : rows) {
        const uint64_t key = key_of(shape.form, *out);
        size_t slot = slot_of(key);
        while (out->entries.at(slot).key != 0 && out->entries.at(slot).key != key)
          slot = (slot + 1) % kSlots;
        out->entries.at(slot).key = key;
        out->entries.at(slot).shapes.push_back(&shape);
      }
    }
    return out;
  }();
  return *made;
}

const Entry* find(uint64_t key) {
  const Table& all = table();
  for (size_t slot = slot_of(key); all.entries[slot].key != 0; slot = (slot + 1) % kSlots)
    if (all.entries[slot].key == key) return &all.entries[slot];
  return nullptr;
}

bool separators_fit(const Candidate& candidate, std::string_view form) {
  size_t group = 0;
  char same = '\0';
  if (form.front() == '(') {
    if (candidate.window.before(candidate.start()) != '(') return false;
    form.remove_prefix(1);
  }
  for (const char c : form) {
    if (is(c, kDigit)) continue;
    const char have = candidate.separator(++group);
    // "(415) 555" and "8 (495)": what stands between is the reader's business.
    if (c == '~') {
      if (have != ' ' && have != '-' && have != '.') return false;
      if (same != '\0' && have != same) return false;
      same = have;
    } else if (have != c) {
      return false;
    }
  }
  return true;
}

bool stands_alone(const Candidate& candidate) {
  const bool spaced = candidate.last > candidate.first && candidate.separator(1) == ' ';
  return clear_before(candidate, spaced) && clear_after(candidate, spaced);
}

}

bool may_start_shape(uint8_t first, uint8_t second) noexcept {
  if (first >= 32) return false;
  const uint32_t seconds = table().seconds[first];
  return seconds == ~uint32_t{0} || (second < 32 && (seconds >> second & 1U) != 0);
}

Found match_shape(const Candidate& whole, const ClassSet& classes) {
  // The longest run of groups first: a card's sixteen digits before a phone's ten of them.
  std::array<uint64_t, kMaxShapeGroups> keys{};
  size_t most = 0;
  uint64_t key = 0;
  for (size_t i = 0; i < kMaxShapeGroups && whole.first + i < whole.numbers.count; ++i) {
    const uint8_t length = whole.numbers.groups[whole.first + i].length;
    if (length > 31) break;
    key = add_length(key, length);
    keys[i] = key;
    most = i + 1;
  }
  for (size_t i = most; i-- > 0;) {
    const Entry* entry = find(keys[i]);
    if (entry == nullptr) continue;
    const Candidate candidate{whole.window, whole.numbers, whole.first, whole.first + i,
                              whole.numbers.digits_of(whole.first, whole.first + i)};
    std::optional<uint32_t> says;
    std::optional<bool> alone;
    for (const Shape* shape : entry->shapes) {
      if (!classes.has(shape->kind) || !separators_fit(candidate, shape->form) ||
          !shape->valid(candidate.digits)) {
        continue;
      }
      if (!alone) alone = stands_alone(candidate);
      if (!*alone) break;
      const bool parenthesis = shape->form.front() == '(';
      const size_t start = candidate.start() - (parenthesis ? 1 : 0);
      if (shape->needs != 0 || shape->unless_other) {
        if (!says) says = context_before(candidate.window, start);
        if (shape->needs != 0 && (*says & shape->needs) == 0) continue;
        if (shape->unless_other && (*says & kSaysOther) != 0) continue;
      }
      return Hit{start, candidate.end(), shape->kind, shape->detail};
    }
  }
  return std::nullopt;
}

}
