#include "secret_values.h"

#include <sys/prctl.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/secret.h"
#include "mvm/secret/text.h"

namespace mvm::cli {

secret::Store secret_store(const Context& context) {
  return secret::Store(context.paths.data() + "/secrets");
}

std::vector<proto::SecretRule> secrets_of(const Context& context,
                                          const config::Settings& settings) {
  const secret::Store store = secret_store(context);
  const secret::Sources sources{context.variable, context.directory, store};
  std::vector<proto::SecretRule> out;
  for (const auto& [name, rule] : settings.secrets) {
    if (settings.env.contains(name))
      throw Error(Kind::Invalid, "env and secrets both set " + name +
                                     "; one of the two would not hold, so remove the other");
    out.push_back(policy::with_provider(rule));
    out.back().from = secret::absolute_reference(rule.from, sources);
    if (out.back().hosts.empty())
      throw Error(Kind::Invalid, "which hosts may secret " + name + " go to? --secret " + name +
                                     "@api.example.com, or `hosts` in [secrets]");
  }
  policy::compile_secrets(out);
  return out;
}

proto::SecretValues secret_values(const Context& context,
                                  const std::vector<proto::SecretRule>& rules) {
  proto::SecretValues out;
  if (rules.empty()) return out;
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const secret::Store store = secret_store(context);
  const secret::Sources sources{context.variable, context.directory, store};
  ScopeExit forget([&] { proto::wipe(out); });
  for (const proto::SecretRule& rule : rules) {
    const policy::SecretBinding binding = policy::compile_secret(rule);
    std::string& value = out[rule.name] = while_doing(
        "secret " + rule.name, [&] { return secret::look_up(rule.name, rule.from, sources); });
    if (const auto complaint = policy::secret_value_complaint(binding, value))
      throw Error(Kind::Invalid, "secret " + rule.name + ": " + *complaint);
  }
  forget.release();
  return out;
}

void tell_secrets(Context& context, const api::SandboxSpec& spec) {
  for (const proto::SecretRule& rule : spec.secrets) {
    std::string hosts;
    std::string closed;
    for (const std::string& host : rule.hosts) {
      hosts += (hosts.empty() ? "" : ", ") + host;
      const auto parsed = policy::parse_host_rule(host);
      policy::Request request;
      request.host = parsed ? dns::Name::parse(parsed->host.text()) : std::nullopt;
      if (!request.host) continue;  // all below a name: some of it may be open
      if (!parsed->ports.empty()) request.port = parsed->ports.front();
      if (policy::decide(policy::compile(spec.network), request).outcome == policy::Outcome::Deny)
        closed += " --allow-host " + host;
    }
    context.console.err("mvm: secret " + rule.name + " is for " + hosts + "\n");
    if (!closed.empty())
      context.console.err("  which no rule lets it reach; this would:" + closed + "\n");
  }
}

}
