#include "secrets.h"

#include <algorithm>
#include <cstdio>

#include <sys/prctl.h>

#include "mvm/base/error.h"
#include "mvm/base/scope_exit.h"
#include "mvm/crypto/ed25519.h"
#include "mvm/sys/error.h"
#include "mvm/sys/socket.h"

namespace mvm::sandbox {

std::shared_ptr<const secret::Secrets> take_secrets(int channel, proto::SandboxConfig& config) {
  sys::check(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "forbidding core dumps");
  auto message = sys::receive_message(channel, proto::kMaxSecretsMessage);
  if (!message) throw Error(Kind::Invalid, "the sandbox's secrets did not come");
  const ScopeExit forget([&] { crypto::wipe(message->data); });
  auto decoded = proto::SecretsConfig::decode(message->data);
  if (!decoded) throw Error(Kind::Invalid, "the sandbox's secrets do not decode");
  const ScopeExit forget_decoded([&] { proto::wipe(decoded->values); });
  auto secrets = std::make_shared<const secret::Secrets>(*decoded);
  if (!secrets->locked())
    std::fputs(
        "mvm sandbox: this user may not lock enough memory (ulimit -l) for the values of secrets: "
        "they could be swapped out\n",
        stderr);
  for (auto& [name, placeholder] : secrets->environment()) {
    std::erase_if(config.env, [&](const auto& entry) { return entry.first == name; });
    config.env.emplace_back(std::move(name), std::move(placeholder));
  }
  return secrets;
}

std::vector<std::shared_ptr<egress::FilterSource>> secret_source(
    const std::shared_ptr<const secret::Secrets>& secrets, guard::SecretSource::Watcher watcher) {
  if (!secrets || secrets->empty()) return {};
  return {std::make_shared<guard::SecretSource>(secrets, std::move(watcher))};
}

std::vector<policy::InspectRule> inspected_for(const secret::Secrets* secrets) {
  std::vector<policy::SecretBinding> bindings;
  if (secrets != nullptr)
    for (const secret::Secret& secret : secrets->all()) bindings.push_back(secret.binding);
  return policy::inspected_for(bindings);
}

audit::SecretUse secret_record(const guard::SecretNotice& notice) {
  return {static_cast<audit::SecretUse::Kind>(notice.what),
          notice.flow,
          audit::HostName(notice.host),
          notice.port,
          audit::VariableName(notice.secret),
          notice.count};
}

std::optional<audit::Writer::Of> deferred_as(const guard::SecretNotice& notice) {
  using What = guard::SecretNotice::What;
  using Of = audit::Writer::Of;
  switch (notice.what) {
    case What::Used:
    case What::Inert:
      return Of::WhatMayBeRefused;
    case What::Masked:
      return Of::WhatHasHappened;  // it may have got to the guest by now
    case What::Misused:
    case What::Leaked:
    case What::Unreadable:
      break;
  }
  return std::nullopt;
}

audit::Writer::Of commit_of(egress::Passage passage) {
  using Of = audit::Writer::Of;
  return passage == egress::Passage::Before ? Of::WhatMayBeRefused : Of::WhatHasHappened;
}

std::string misuse_text(const guard::SecretNotice& notice) {
  return "it used the placeholder of secret " + notice.secret + " in a request to " + notice.host +
         ", where it may not be (on_misuse = \"end\")";
}

}
