#pragma once
// Meters the exchanges with AI providers as they pass the proxy: lets a request out while the
// budget lasts, reads what its answer says was used, and charges it. Bodies pass unchanged, but for
// what inject_stream_usage asks for.
//
// To be the last of the proxy's filters: it sees requests as they leave, and answers as they come.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/egress/filter.h"
#include "mvm/meter/compile.h"
#include "mvm/meter/ledger.h"
#include "mvm/proto/network.h"

namespace mvm::metering {

// The providers' connections have to be looked into, whatever admits them. `admitted`: patterns of
// hosts that rules name; a provider's host that none of them covers, or is covered by, is left out.
std::vector<policy::InspectRule> inspections(const meter::Catalogue& catalogue);
std::vector<policy::InspectRule> inspections(const meter::Catalogue& catalogue,
                                             const proto::NetworkConfig& network);

// What one exchange has used; nothing of what was said in it.
struct UsageNotice {
  uint64_t flow = 0;
  std::string host;
  uint16_t port = 0;
  meter::Record used;  // an End
};

class MeterSource : public egress::FilterSource {
 public:
  // `ledger` outlives it.
  struct Watcher {
    // When an exchange has ended, after it was charged.
    std::function<void(const UsageNotice&)> record;
    // Whether a model's name is one that nobody may be shown: an answer may say anything.
    std::function<bool(std::string_view model)> withhold;
  };
  MeterSource(meter::Catalogue catalogue, bool inject_stream_usage, meter::Ledger& ledger,
              Watcher watcher = {})
      : catalogue_(std::move(catalogue)),
        inject_(inject_stream_usage),
        ledger_(&ledger),
        watcher_(std::move(watcher)) {}

  std::unique_ptr<egress::ExchangeFilter> begin(const egress::Exchange& exchange) override;

 private:
  meter::Catalogue catalogue_;
  bool inject_;
  meter::Ledger* ledger_;
  Watcher watcher_;
};

}
