#pragma once
// Meters the exchanges with AI providers as they pass the proxy: lets a request out while the
// budget lasts, reads what its answer says was used, and charges it. Bodies pass unchanged, but for
// what inject_stream_usage asks for.
//
// To be the last of the proxy's filters: it sees requests as they leave, and answers as they come.

#include <memory>
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

class MeterSource : public egress::FilterSource {
 public:
  // `ledger` outlives it.
  MeterSource(meter::Catalogue catalogue, bool inject_stream_usage, meter::Ledger& ledger)
      : catalogue_(std::move(catalogue)), inject_(inject_stream_usage), ledger_(&ledger) {}

  std::unique_ptr<egress::ExchangeFilter> begin(const egress::Exchange& exchange) override;

 private:
  meter::Catalogue catalogue_;
  bool inject_;
  meter::Ledger* ledger_;
};

}
