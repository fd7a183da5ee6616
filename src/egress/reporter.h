#pragma once
// Hands events on. Refusals come as fast as a guest likes; equal ones within a second become one
// event with a count, after the first, which is told at once. Of very many different ones the rest
// become one event for each reason, which says how many there were and not of what: so a guest
// cannot fill the log, and cannot hide a refusal behind others either.
//
// Where each refusal has to be on record before it is answered, none is told with others but those
// that are told when they have happened; the guest then waits for the disk at each.

#include <map>
#include <string>
#include <tuple>

#include "mvm/egress/event.h"
#include "mvm/loop/loop.h"

namespace mvm::egress {

class Reporter {
 public:
  static constexpr size_t kMaxKinds = 256;  // different refusals in one second that are told

  Reporter(loop::Loop& loop, EventSink sink, Refusals refusals = Refusals::Together)
      : loop_(loop), sink_(std::move(sink)), refusals_(refusals) {}
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  // False: it is not on record, and must not happen.
  [[nodiscard]] bool tell(const Event& event) { return sink_(event); }
  // Before it is answered.
  void refuse(Event event);
  // What the kernel has refused already.
  void has_refused(Event event);

 private:
  void flush();

  loop::Loop& loop_;
  EventSink sink_;
  Refusals refusals_;
  // Those of this second, with how many came after the first (Event::count).
  std::map<std::string, Event> recent_;
  // Those beyond kMaxKinds; no more than there are kinds, outcomes and reasons.
  std::map<std::tuple<EventKind, policy::Outcome, policy::Reason, std::optional<net::Transport>>,
           Event>
      rest_;
  loop::Watch end_of_second_;
};

}
