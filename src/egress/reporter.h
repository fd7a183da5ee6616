#pragma once
// Hands events on. Refusals come as fast as a guest likes; equal ones within a second become one
// event with a count, after the first, which is told at once. Of very many different ones the rest
// become one event for each reason, which says how many there were and not of what: so a guest
// cannot fill the log, and cannot hide a refusal behind others either.

#include <map>
#include <string>
#include <tuple>

#include "mvm/egress/event.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

class Reporter {
 public:
  static constexpr size_t kMaxKinds = 256;  // different refusals in one second that are told

  Reporter(loop::Loop& loop, EventSink sink) : loop_(loop), sink_(std::move(sink)) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // False: it is not on record, and must not happen.
  [[nodiscard]] bool tell(const Event& event) { return sink_(event); }
  void refuse(Event event);

 private:
  void flush();

  loop::Loop& loop_;
  EventSink sink_;
  // Those of this second, with how many came after the first (Event::count).
  std::map<std::string, Event> recent_;
  // Those beyond kMaxKinds; no more than there are kinds, outcomes and reasons.
  std::map<std::tuple<EventKind, policy::Outcome, policy::Reason, std::optional<net::Transport>>,
           Event>
      rest_;
  loop::Watch end_of_second_;
};

}
