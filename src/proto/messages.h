#pragma once
// What the messages' codecs share.

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mvm/proto/cbor.h"
#include "mvm/proto/exec.h"

namespace mvm::proto {

inline std::chrono::milliseconds read_duration(CborReader& in) noexcept {
  return std::chrono::milliseconds(
      in.unsigned_integer(static_cast<uint64_t>(kMaxDuration.count())));
}

inline void write_duration(MapWriter& map, std::string_view name, std::chrono::milliseconds time) {
  map.unsigned_integer(name, static_cast<uint64_t>(std::max<int64_t>(time.count(), 0)));
}

inline void write_texts(CborWriter out, const std::vector<std::string>& texts) {
  out.array(texts.size());
  for (const std::string& text : texts) out.string(text);
}

// Fails for more than `most` of them, and for one that is longer than `longest`.
inline std::vector<std::string> read_texts(CborReader& in, size_t most, size_t longest) {
  std::vector<std::string> texts;
  const size_t count = in.array(most);
  for (size_t i = 0; i < count && in; ++i) texts.emplace_back(in.string(longest));
  return texts;
}

// The message when all of it was read and nothing is left over.
template <typename Message>
std::optional<Message> finished(const CborReader& in, Message& message, bool complete = true) {
  if (!in || !in.at_end() || !complete) return std::nullopt;
  return std::move(message);
}

}
