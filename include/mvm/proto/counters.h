#pragma once
// What a sandbox's proxy has counted since the sandbox began.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "mvm/base/bytes.h"

namespace mvm::proto {

// End ok with EgressCounters; End error of kind Unavailable without a network.
inline constexpr std::string_view kSandboxCountersVerb = "sandbox.counters";

struct EgressCounters {
  uint64_t flows_now = 0;
  uint64_t flows = 0;
  uint64_t flows_refused = 0;
  uint64_t packets_refused = 0;
  uint64_t queries = 0;
  uint64_t queries_refused = 0;
  uint64_t sent = 0;      // bytes from the guest
  uint64_t received = 0;  // bytes to the guest
  // Of AI, the most that one of the commands under way has used; 0 without metering.
  uint64_t run_total_tokens = 0;
  uint64_t run_input_tokens = 0;
  uint64_t run_output_tokens = 0;
  uint64_t run_requests = 0;
  uint64_t run_cost = 0;  // nanodollars
  bool operator==(const EgressCounters&) const = default;

  Bytes encode() const;
  static std::optional<EgressCounters> decode(ByteView item) noexcept;
};

struct EgressCounterField {
  std::string_view name;
  uint64_t EgressCounters::* member;
};
inline constexpr std::array kEgressCounterFields{
    EgressCounterField{"flows_now", &EgressCounters::flows_now},
    EgressCounterField{"flows", &EgressCounters::flows},
    EgressCounterField{"flows_refused", &EgressCounters::flows_refused},
    EgressCounterField{"packets_refused", &EgressCounters::packets_refused},
    EgressCounterField{"queries", &EgressCounters::queries},
    EgressCounterField{"queries_refused", &EgressCounters::queries_refused},
    EgressCounterField{"sent", &EgressCounters::sent},
    EgressCounterField{"received", &EgressCounters::received},
    EgressCounterField{"run_total_tokens", &EgressCounters::run_total_tokens},
    EgressCounterField{"run_input_tokens", &EgressCounters::run_input_tokens},
    EgressCounterField{"run_output_tokens", &EgressCounters::run_output_tokens},
    EgressCounterField{"run_requests", &EgressCounters::run_requests},
    EgressCounterField{"run_cost", &EgressCounters::run_cost}};

}
