#pragma once
// Hands events on. Refusals come as fast as a guest likes; equal ones within a second become one
// event with a count, after the first, which is told at once.

#include <map>
#include <string>

#include "mvm/egress/event.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

class Reporter {
 public:
  static constexpr size_t kMaxKinds = 256;  // different refusals in one second

  Reporter(loop::Loop& loop, EventSink sink) : loop_(loop), sink_(std::move(sink)) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // False: it is not on record, and must not happen.
  [[nodiscard]] bool tell(const Event& event) { return sink_(event); }
  void refuse(Event event);
  // Refusals beyond kMaxKinds, of which nobody was told.
  uint64_t lost() const noexcept { return lost_; }

 private:
  void flush();

  loop::Loop& loop_;
  EventSink sink_;
  // Those of this second, with how many came after the first (Event::count).
  std::map<std::string, Event> recent_;
  loop::Watch end_of_second_;
  uint64_t lost_ = 0;
};

}
