#pragma once
// Secrets in inspected exchanges: placeholders become values on their way to the hosts that they
// are for, and nowhere else; values become placeholders on their way back.

#include <functional>
#include <memory>
#include <string>

#include "mvm/egress/filter.h"
#include "mvm/secret/secrets.h"

namespace mvm::guard {

// What has become of a secret in one exchange.
struct SecretNotice {
  enum class What : uint8_t {
    Used,        // put in place of its placeholder
    Inert,       // its placeholder passed as text, in a body
    Misused,     // its placeholder was where it may not be; refused
    Leaked,      // its value was in a request; refused
    Masked,      // its value was in a response, and its placeholder went on instead
    Unreadable,  // a response could not be looked into; refused
  };
  What what = What::Used;
  uint64_t flow = 0;
  std::string host;
  uint16_t port = 0;
  std::string secret;  // its name
  uint64_t count = 1;
};

class SecretSource : public egress::FilterSource {
 public:
  struct Watcher {
    // Before it happens. False: it cannot be recorded, so it does not happen.
    std::function<bool(const SecretNotice&)> record;
    // A misuse of a secret whose rule says that the sandbox ends by it. Must not end the proxy
    // before the next turn of the loop.
    std::function<void(const SecretNotice&)> end;
  };
  SecretSource(std::shared_ptr<const secret::Secrets> secrets, Watcher watcher);

  std::unique_ptr<egress::ExchangeFilter> begin(const egress::Exchange& exchange) override;
  std::optional<std::string> rule_of_name(const std::string& name) const override;

 private:
  std::shared_ptr<const secret::Secrets> secrets_;
  Watcher watcher_;
};

}
