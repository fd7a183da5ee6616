#include "kept.h"

#include <algorithm>

namespace mvm::mcp {

static bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the character that starts so; 1 for what starts none.
static size_t length_by(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
}

std::string_view without_cut_character(std::string_view text) {
  size_t start = text.size();
  for (size_t back = 0; back < 4 && start > 0; ++back)
    if (!continues(text[--start])) break;
  if (start < text.size() && !continues(text[start]) &&
      start + length_by(text[start]) > text.size())
    return text.substr(0, start);
  return text;
}

void Kept::add(std::string_view bytes) {
  bytes_ += bytes.size();
  const size_t first = std::min(head_room_ - head_.size(), bytes.size());
  head_ += bytes.substr(0, first);
  bytes.remove_prefix(first);
  if (bytes.size() > tail_room_) {
    tail_.clear();
    bytes.remove_prefix(bytes.size() - tail_room_);
  }
  tail_ += bytes;
  // Not at every piece, so that many small ones cost no more than their bytes.
  if (tail_.size() > 2 * tail_room_) tail_.erase(0, tail_.size() - tail_room_);
}

std::string Kept::text() const {
  if (!truncated()) return head_ + tail_;
  const std::string_view head = without_cut_character(head_);
  std::string_view tail = tail_;
  tail.remove_prefix(tail.size() - std::min(tail.size(), tail_room_));
  for (size_t skipped = 0; skipped < 3 && !tail.empty() && continues(tail[0]); ++skipped)
    tail.remove_prefix(1);
  return std::string(head) + "\n[mvm: " + std::to_string(bytes_ - head.size() - tail.size()) +
         " bytes left out]\n" + std::string(tail);
}

}
