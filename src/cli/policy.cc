// `mvm policy explain`: what the enforcer would say, by the same function, without a sandbox.

#include <algorithm>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/meter/compile.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/secret.h"
#include "mvm/privacy/rules.h"

#include "json_text.h"
#include "secret_values.h"
#include "settings.h"

namespace mvm::cli {
namespace {

[[noreturn]] void wrong(const Arguments& arguments, const std::string& message) {
  throw UsageError(&arguments.command(), message);
}

// "GET" and "https://example.com/path", or the URL alone: then a connection is asked about.
policy::Request request_of(const Arguments& arguments) {
  const std::vector<std::string> words = arguments.positionals("REQUEST");
  if (words.size() > 2) wrong(arguments, "at most a method and a URL: GET https://example.com/v1");
  policy::Request request;
  if (words.size() == 2) request.method = words[0];
  std::string_view url = words.back();
  const bool https = url.starts_with("https://");
  if (https || url.starts_with("http://")) {
    url.remove_prefix(https ? 8 : 7);
  } else if (url.find("://") != url.npos) {
    wrong(arguments, "'" + printable(url, 80) + "' is neither http:// nor https://");
  }
  const size_t slash = std::min(url.find_first_of("/?"), url.size());
  const std::string_view authority = url.substr(0, slash);
  if (!request.method.empty())
    request.target = slash == url.size() ? "/"
                     : url[slash] == '?' ? "/" + std::string(url.substr(slash))
                                         : std::string(url.substr(slash));
  const bool plain = words.back().starts_with("http://");
  request.port = plain ? 80 : 443;
  // An address, bare or with its port, or a name.
  if (const auto address = IpAddress::parse(authority)) {
    request.address = *address;
    return request;
  }
  if (const auto endpoint = policy::parse_resolver(authority)) {
    request.address = endpoint->address;
    request.port = endpoint->port;
    return request;
  }
  if (authority.starts_with('[') && authority.ends_with(']')) {
    request.address = IpAddress::parse(authority.substr(1, authority.size() - 2));
    if (request.address) return request;
  }
  std::string_view host = authority;
  if (const size_t colon = authority.rfind(':'); colon != authority.npos) {
    const auto port = parse_u64(authority.substr(colon + 1));
    if (!port || *port == 0 || *port > 65535)
      wrong(arguments, "'" + printable(authority, 80) + "' has no port from 1 to 65535");
    request.port = static_cast<uint16_t>(*port);
    host = authority.substr(0, colon);
  }
  request.host = dns::Name::parse(host);
  if (!request.host || host.empty())
    wrong(arguments, "'" + printable(host, 80) + "' is neither a host name nor an address");
  return request;
}

std::string sentence(const policy::Decision& decision, bool enabled, bool audit) {
  if (!enabled) return "the sandbox has no network card";
  std::string text(policy::reason_word(decision.reason));
  if (!decision.rule.empty()) text += ", by rule '" + printable(decision.rule, 200) + "'";
  if (audit && decision.outcome == policy::Outcome::Deny)
    text += "; mode \"audit\" lets it through and records it, unless the address is shut for good";
  if (decision.inspect) text += "; each request is judged by itself";
  return text;
}

// What is looked into besides the rules, as the sandbox's filters would.
void explain_protection(const proto::NetworkConfig& network,
                        const std::vector<policy::SecretBinding>& bindings,
                        const policy::Request& request, policy::Policy& rules,
                        Explanation& explanation) {
  rules.inspect = policy::inspected_for(bindings);
  if (!request.port) return;
  const uint16_t port = *request.port;
  const std::string host = request.host ? request.host->text() : request.address->text();
  for (const policy::SecretBinding& binding : bindings)
    if (request.host && binding.covers(*request.host, port))
      explanation.secrets.push_back(binding.name);
  if (network.ai.on()) {
    const meter::Catalogue catalogue = meter::compile(network.ai).catalogue;
    if (const auto provider = catalogue.provider_of(host, port)) {
      explanation.ai_provider = meter::provider_word(*provider);
      for (const policy::HostRule& rule : catalogue.hosts())
        rules.inspect.push_back(
            {rule.host, rule.ports.empty() ? std::vector<uint16_t>{80, 443} : rule.ports, true});
    }
  }
  if (!network.pii.enabled() && !network.inspect_all) return;
  privacy::Rules pii = privacy::compile(network.pii);
  const privacy::Plan plan = pii.plan(host, port);
  for (const auto action : {privacy::Action::Detect, privacy::Action::Tokenize,
                            privacy::Action::Redact, privacy::Action::Deny})
    if (plan.has(action)) explanation.personal_data.emplace_back(privacy::action_word(action));
  rules.inspect.insert(rules.inspect.end(), pii.inspect.begin(), pii.inspect.end());
  if (network.inspect_all) rules.inspect.push_back({std::nullopt, {}, true});
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + printable(word, 80);
  return out;
}

// "secrets (API_KEY), personal data (tokenize)"
std::string looked_into_for(const Explanation& explanation) {
  std::string out;
  const auto add = [&](std::string_view what, const std::string& of) {
    if (of.empty()) return;
    out += (out.empty() ? "" : ", ") + std::string(what) + " (" + of + ")";
  };
  add("secrets", joined(explanation.secrets));
  add("personal data", joined(explanation.personal_data));
  add("use of AI", explanation.ai_provider);
  return out;
}

}

int policy_explain(Context& context, const ExplainOptions& options, const Arguments& arguments) {
  const Decided decided = decide(context, options.flags, {}, options.manifest);
  const proto::NetworkConfig network = network_of(context, decided.resolved.settings);
  const policy::Request request = request_of(arguments);
  policy::Decision decision;
  policy::Policy rules = policy::compile(network);
  Explanation explanation;
  if (network.enabled)
    explain_protection(network,
                       policy::compile_secrets(secrets_of(context, decided.resolved.settings)),
                       request, rules, explanation);
  if (network.enabled) decision = policy::decide(rules, request);
  explanation.outcome = policy::outcome_word(decision.outcome);
  explanation.reason = network.enabled ? policy::reason_word(decision.reason) : "no_network";
  explanation.rule = decision.rule;
  explanation.inspect = decision.inspect;
  explanation.audited = network.audit && decision.outcome == policy::Outcome::Deny;
  if (network.enabled) {
    explanation.suggestion = policy::suggestion(request, decision).value_or("");
    explanation.note = policy::near_miss(rules, request, decision);
  }
  if (options.json) {
    context.console.out(json_explanation(explanation));
  } else {
    std::string text = std::string(explanation.outcome) + ": " +
                       sentence(decision, network.enabled, network.audit) + '\n';
    if (!explanation.note.empty()) text += "  " + explanation.note + '\n';
    if (!explanation.suggestion.empty())
      text += "  this would allow it: " + explanation.suggestion + '\n';
    const std::string protection = looked_into_for(explanation);
    if (!protection.empty() && decision.outcome != policy::Outcome::Deny)
      text += "  its exchanges are looked into for " + protection + '\n';
    context.console.out(text);
  }
  return decision.outcome == policy::Outcome::Allow ? kFine : kNotWell;
}

}
