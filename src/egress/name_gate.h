#pragma once
// How many names a sandbox may have looked up, whoever asks for it: the guest's own queries, and
// requests that name their server; and which names may not be.
//
// Whoever runs the name servers of a zone reads what is asked there. Where a rule admits a whole
// zone ("*.example.com"), names that are made up carry data out of the sandbox, some two hundred
// bytes each; so only so many different ones of a zone are looked up in an hour. Those that were
// asked for within the hour may be asked again, and names that a rule spells out are no choice of
// the guest's.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "mvm/base/token_bucket.h"
#include "mvm/egress/filter.h"

#include "judge.h"

namespace mvm::egress {

class NameGate {
 public:
  using Time = loop::Clock::time_point;
  static constexpr std::chrono::hours kWindow{1};

  using Sources = std::vector<std::shared_ptr<FilterSource>>;
  // `sources` outlive it.
  NameGate(const Limits& limits, const Sources& sources)
      : rate_(limits.queries_per_second),
        names_per_zone_(limits.names_per_zone),
        sources_(sources) {}

  // A query that is about to be judged. False: it came too fast.
  [[nodiscard]] bool take_query(Time now) noexcept { return rate_.take(1, now) == 1; }
  // A name that is about to be sent upstream. False: it is one too many of its zone.
  [[nodiscard]] bool admits(const Judge& judge, const dns::Name& name, Time now);
  // The rule of what is in it and may not leave; nothing: it may.
  [[nodiscard]] std::optional<std::string> holds(const Judge& judge, const dns::Name& name) const;

 private:
  // Kept are names, of 255 bytes at most, and not more than the limit says for each rule.
  struct Zone {
    std::set<std::string> names;
    std::deque<std::pair<Time, std::set<std::string>::iterator>> order;  // the oldest first
  };

  TokenBucket rate_;
  size_t names_per_zone_;
  const Sources& sources_;
  std::map<std::string, Zone> zones_;  // by the pattern that admits them
};

}
