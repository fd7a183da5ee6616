#include "number.h"

#include "letters.h"

namespace mvm::protect {
namespace {

// The separator at `i` when a digit follows it; its length, or 0.
size_t separator_at(const Window& window, size_t i, char& kind) {
  const char c = window.at(i);
  const auto digit = [&](size_t at) { return is(window.at(at), kDigit); };
  switch (c) {
    case ' ':
      kind = ' ';
      if (digit(i + 1)) return 1;
      kind = '(';
      return window.at(i + 1) == '(' && digit(i + 2) ? 2 : 0;
    case '-':
    case '.':
    case '/':
      kind = c;
      return digit(i + 1) ? 1 : 0;
    case '(':
      kind = '(';
      return digit(i + 1) ? 1 : 0;
    case ')': {
      kind = ')';
      if (digit(i + 1)) return 1;
      const char next = window.at(i + 1);
      return (next == ' ' || next == '-') && digit(i + 2) ? 2 : 0;
    }
    case '\xc2':  // no-break space
      kind = ' ';
      return window.at(i + 1) == '\xa0' && digit(i + 2) ? 2 : 0;
    default:
      return 0;
  }
}

}

Numbers read_numbers(const Window& window, size_t at) {
  Numbers out;
  size_t digits = 0;
  char separator = '\0';
  size_t gap = 0;
  size_t i = at;
  for (;;) {
    Group group{static_cast<uint32_t>(i), static_cast<uint8_t>(digits), 0, separator};
    while (is(window.at(i), kDigit)) {
      if (digits == kMaxDigits) {
        out.open = true;
        break;
      }
      out.digits[digits++] = window.at(i++);
      ++group.length;
    }
    out.groups[out.count++] = group;
    out.end = i;
    if (out.open) return out;
    gap = separator_at(window, i, separator);
    if (gap == 0) return out;
    if (out.count == kMaxGroups) {
      out.open = true;
      return out;
    }
    i += gap;
  }
}

namespace {

// Whether a neighbouring group belongs to the run: "1111 2222 3333 4444 5555" is not a card with
// something behind it, "12-34" is one thing.
bool belongs(char separator, bool spaced, uint8_t length, uint8_t other) {
  if (separator == ' ') return spaced && length == other;
  return separator != '(' && separator != ')';
}

}

bool clear_before(const Candidate& candidate, bool spaced) {
  const Numbers& numbers = candidate.numbers;
  const Group& group = numbers.groups[candidate.first];
  if (candidate.first > 0)
    return !belongs(group.separator, spaced, group.length,
                    numbers.groups[candidate.first - 1].length);
  const char before = candidate.window.before(candidate.start());
  if (is(before, kAlnum)) return false;
  switch (before) {
    case '_':
    case '.':
    case '/':
    case '+':
    case '#':
    case '$':
    case '%':
      return false;
    case '-':  // a list's mark, not the middle of a word
      return candidate.start() >= 2 && !is(candidate.window.before(candidate.start() - 1), kAlnum);
    default:
      return true;
  }
}

bool clear_after(const Candidate& candidate, bool spaced) {
  const Numbers& numbers = candidate.numbers;
  const Window& window = candidate.window;
  if (candidate.last + 1 < numbers.count) {
    const Group& next = numbers.groups[candidate.last + 1];
    return !belongs(next.separator, spaced, numbers.groups[candidate.last].length, next.length);
  }
  if (numbers.open) return false;
  const char after = window.at(candidate.end());
  if (is(after, kAlnum) || after == '_' || after == '@' || after == '%') return false;
  if (after == '-' || after == '/' || after == '.' || after == ':')
    return !is(window.at(candidate.end() + 1), kAlnum);
  return true;
}

}
