#pragma once
// Flow control of one direction of one stream, shared by both sides. Bulk frames (Data, or Stdout
// and Stderr together) spend credit by payload length; the receiver gives credit back with Window
// frames once it has consumed what came. So a receiver never holds more than kInitialWindow bytes
// a stream, and a sender that has no credit stops reading its source.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace mvm::proto {

inline constexpr uint32_t kInitialWindow = 256 * 1024;
// Consumed bytes are given back in portions, so that a stream of small frames does not cost a
// Window frame each.
inline constexpr uint32_t kWindowPortion = kInitialWindow / 4;

// What the far side allows us to send.
class SendWindow {
 public:
  size_t available() const noexcept { return available_; }
  // Must not exceed available().
  void spend(size_t length) noexcept;
  // False when the far side gives more than it ever took: a protocol fault.
  [[nodiscard]] bool grant(uint32_t credit) noexcept;

 private:
  uint32_t available_ = kInitialWindow;
};

// What we allow the far side to send.
class ReceiveWindow {
 public:
  // For each bulk frame that arrives. False when it overruns the window: a protocol fault.
  [[nodiscard]] bool receive(size_t length) noexcept;
  // For bytes that have left our hands. Returns credit to send back now, if it is worth a frame.
  // Consuming more than was received is a bug of ours.
  [[nodiscard]] std::optional<uint32_t> consume(size_t length) noexcept;
  // Received and not yet consumed.
  size_t held() const noexcept { return held_; }

 private:
  uint32_t available_ = kInitialWindow;
  uint32_t held_ = 0;
  uint32_t owed_ = 0;  // consumed and not yet given back
};

}
