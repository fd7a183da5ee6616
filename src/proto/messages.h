#pragma once
// What the messages' codecs share.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

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

// The message when all of it was read and nothing is left over.
template <typename Message>
std::optional<Message> finished(const CborReader& in, Message& message, bool complete = true) {
  if (!in || !in.at_end() || !complete) return std::nullopt;
  return std::move(message);
}

}
