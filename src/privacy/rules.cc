#include "mvm/privacy/rules.h"

#include <algorithm>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::privacy {
namespace {

using protect::PiiClass;

constexpr std::array<std::string_view, kActions> kActionWords = {"allow", "detect", "tokenize",
                                                                 "redact", "deny"};

struct Group {
  std::string_view name;
  std::initializer_list<PiiClass> classes;
};
const std::array<Group, 4>& groups() {
  static const std::array<Group, 4> all = {{
      {"personal",
       {PiiClass::Email, PiiClass::Phone, PiiClass::UsSsn, PiiClass::UsItin, PiiClass::UkNino,
        PiiClass::UkNhs, PiiClass::NationalId, PiiClass::Vin, PiiClass::Coordinates,
        PiiClass::BirthDate, PiiClass::Passport, PiiClass::DrivingLicence}},
      {"financial",
       {PiiClass::Card, PiiClass::Iban, PiiClass::BankRouting, PiiClass::CryptoAddress}},
      {"network", {PiiClass::Ipv4, PiiClass::Ipv6, PiiClass::Mac}},
      {"credentials",
       {PiiClass::Jwt, PiiClass::PrivateKey, PiiClass::ApiKey, PiiClass::HighEntropy}},
  }};
  return all;
}

[[noreturn]] void refuse(const std::string& where, const std::string& complaint) {
  throw Error(Kind::Invalid, "pii." + where + ": " + complaint);
}
std::string quoted(std::string_view text) { return "\"" + printable(text, 60) + "\""; }

// Adds what a word names; false when it names nothing.
bool add_classes(std::string_view word, const std::vector<std::string>& own, Rules::Rule& rule) {
  if (word == "all") {
    rule.classes.fill(true);
    rule.own = own;
    return true;
  }
  for (const Group& group : groups())
    if (group.name == word) {
      for (const PiiClass kind : group.classes) rule.classes.at(static_cast<size_t>(kind)) = true;
      return true;
    }
  if (std::ranges::find(own, word) != own.end()) {
    rule.own.emplace_back(word);
    return true;
  }
  const auto kind = protect::class_from_name(word);
  if (!kind) return false;
  rule.classes.at(static_cast<size_t>(*kind)) = true;
  if (*kind == PiiClass::Custom) rule.own = own;
  return true;
}

std::string class_complaint(std::string_view word) {
  std::string known = "all";
  for (const Group& group : groups()) known += ", " + std::string(group.name);
  for (size_t i = 0; i < protect::kPiiClasses; ++i)
    known += ", " + std::string(class_name(static_cast<PiiClass>(i)));
  return quoted(word) + " is no class of personal data and no pattern; there are " + known;
}

bool is_group(std::string_view word) {
  return word == "all" ||
         std::ranges::any_of(groups(), [&](const Group& group) { return group.name == word; });
}

Rules::Rule rule_of(const std::string& where, const std::vector<std::string>& classes,
                    const std::vector<std::string>& own, Action action) {
  Rules::Rule rule;
  rule.action = action;
  if (classes.empty()) add_classes("all", own, rule);
  for (const std::string& word : classes)
    if (!add_classes(word, own, rule)) refuse(where, class_complaint(word));
  return rule;
}

// "ACTION", "ACTION CLASS,CLASS", and " at HOST" behind either.
Rules::Rule read_rule(std::string_view text, const std::vector<std::string>& own) {
  const std::string where = "rules";
  std::vector<std::string_view> words;
  for (const std::string_view word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  std::optional<policy::HostRule> host;
  if (words.size() >= 3 && words[words.size() - 2] == "at") {
    host = policy::parse_host_rule(words.back());
    if (!host)
      refuse(where, quoted(words.back()) +
                        " is not a host such as example.com, *.example.com (all below it) or "
                        "example.com:8443");
    words.resize(words.size() - 2);
  }
  const auto action = words.empty() ? std::nullopt : parse_action(words.front());
  if (!action || words.size() > 2)
    refuse(where, quoted(text) +
                      " is not a rule such as \"deny\", \"redact email,phone\" or \"allow email at "
                      "crm.example.com\"; actions are allow, detect, tokenize, redact, deny");
  std::vector<std::string> classes;
  if (words.size() == 2)
    for (const std::string_view word : split(words[1], ',')) classes.emplace_back(word);
  Rules::Rule rule = rule_of(where, classes, own, *action);
  rule.host = std::move(host);
  return rule;
}

// "NAME EXPRESSION" or "NAME:CHECK EXPRESSION".
protect::Pattern read_pattern(std::string_view text) {
  const size_t blank = text.find(' ');
  std::string_view name = text.substr(0, blank);
  const size_t colon = name.find(':');
  const std::string_view check = colon == name.npos ? "" : name.substr(colon + 1);
  name = name.substr(0, colon);
  protect::Pattern pattern{std::string(name), {}, protect::PatternCheck::None};
  if (check == "luhn") {
    pattern.check = protect::PatternCheck::Luhn;
  } else if (check == "mod97") {
    pattern.check = protect::PatternCheck::Mod97;
  } else if (colon != text.npos) {
    refuse("patterns", quoted(check) + " is none of the checks luhn, mod97");
  }
  if (blank == text.npos || blank + 1 == text.size())
    refuse("patterns", quoted(text) +
                           " is not a name and an expression, such as \"ticket TCK-[0-9]{4}\" or "
                           "\"member:luhn M([0-9]{8})\"");
  pattern.expression = text.substr(blank + 1);
  return pattern;
}

Action mode_action(const std::string& mode) {
  if (mode == "disabled") return Action::Allow;
  if (mode == "refuse") return Action::Deny;
  const auto action = parse_action(mode);
  if (!action || *action == Action::Allow || *action == Action::Deny)
    refuse("mode", quoted(mode) + " is none of disabled, detect, tokenize, redact, refuse");
  return *action;
}

policy::InspectRule bypass_of(const std::string& text) {
  constexpr std::string_view kAny = "*:";
  if (text.starts_with(kAny)) {
    const auto port = parse_u64(std::string_view(text).substr(kAny.size()));
    if (port && *port > 0 && *port <= 65535)
      return {std::nullopt, {static_cast<uint16_t>(*port)}, false};
  }
  const auto host = policy::parse_host_rule(text);
  if (!host)
    refuse("bypass", quoted(text) +
                         " is not a host such as example.com, *.example.com (all below it), "
                         "example.com:8443, or *:22 for one port of every host");
  return {host->host, host->ports, false};
}

}

std::string_view action_word(Action action) noexcept {
  return kActionWords.at(static_cast<size_t>(action));
}
std::optional<Action> parse_action(std::string_view word) noexcept {
  const auto at = std::ranges::find(kActionWords, word);
  if (at == kActionWords.end()) return std::nullopt;
  return static_cast<Action>(at - kActionWords.begin());
}

Action Plan::action(const protect::Finding& finding) const {
  if (finding.kind != PiiClass::Custom) return actions.at(static_cast<size_t>(finding.kind));
  const auto at = own.find(finding.detail);
  return at == own.end() ? Action::Allow : at->second;
}

bool Plan::has(Action action) const {
  return std::ranges::find(actions, action) != actions.end() ||
         std::ranges::any_of(own, [&](const auto& each) { return each.second == action; });
}

protect::ClassSet Plan::looked_for() const {
  protect::ClassSet set;
  for (size_t i = 0; i < actions.size(); ++i)
    if (actions.at(i) != Action::Allow) set.insert(static_cast<PiiClass>(i));
  return set;
}

bool Plan::looks() const {
  return !looked_for().empty() ||
         std::ranges::any_of(own, [](const auto& each) { return each.second != Action::Allow; });
}

Plan Rules::plan(std::string_view host, uint16_t port) const {
  Plan plan;
  const auto name = dns::Name::parse(host);
  const auto matches_port = [port](const std::vector<uint16_t>& ports) {
    return ports.empty() || std::ranges::find(ports, port) != ports.end();
  };
  for (const policy::InspectRule& rule : bypass)
    if (matches_port(rule.ports) && (!rule.host || (name && rule.host->matches(*name))))
      return plan;
  std::array<bool, protect::kPiiClasses> decided{};
  for (const Rule& rule : rules) {
    if (rule.host && (!matches_port(rule.host->ports) || !name || !rule.host->host.matches(*name)))
      continue;
    for (size_t i = 0; i < decided.size(); ++i) {
      if (!rule.classes.at(i) || decided.at(i)) continue;
      decided.at(i) = true;
      plan.actions.at(i) = rule.action;
    }
    for (const std::string& own : rule.own) plan.own.try_emplace(own, rule.action);
  }
  return plan;
}

Rules compile(const proto::PiiConfig& config) {
  Rules out;
  std::vector<protect::Pattern> patterns;
  for (const std::string& text : config.patterns) {
    protect::Pattern pattern = read_pattern(text);
    if (protect::class_from_name(pattern.name) || is_group(pattern.name) ||
        std::ranges::find(out.pattern_names, pattern.name) != out.pattern_names.end())
      refuse("patterns", quoted(pattern.name) + " is the name of something else already");
    out.pattern_names.push_back(pattern.name);
    patterns.push_back(std::move(pattern));
  }
  try {
    if (!patterns.empty())
      out.patterns = std::make_shared<const protect::PatternSet>(std::move(patterns));
  } catch (const Error& error) {
    refuse("patterns", error.message());
  }
  for (const std::string& text : config.rules)
    out.rules.push_back(read_rule(text, out.pattern_names));
  out.rules.push_back(
      rule_of("categories", config.categories, out.pattern_names, mode_action(config.mode)));
  for (const std::string& text : config.bypass) out.bypass.push_back(bypass_of(text));
  out.inspect = out.bypass;
  for (const Rules::Rule& rule : out.rules) {
    if (rule.action == Action::Allow) continue;
    if (rule.host)
      out.inspect.push_back({rule.host->host, rule.host->ports, true});
    else
      out.inspect.push_back({std::nullopt, {}, true});
  }

  if (config.on_mismatch == "redact") {
    out.on_mismatch = protect::OnMismatch::Redact;
  } else if (config.on_mismatch == "deny") {
    out.on_mismatch = protect::OnMismatch::Deny;
  } else if (config.on_mismatch != "keep") {
    refuse("on_mismatch", quoted(config.on_mismatch) + " is none of keep, redact, deny");
  }
  if (config.on_undecodable != "deny" && config.on_undecodable != "allow")
    refuse("on_undecodable", quoted(config.on_undecodable) + " is none of deny, allow");
  out.pass_undecodable = config.on_undecodable == "allow";
  out.token_lifetime = std::chrono::milliseconds(config.token_lifetime_ms);
  out.token_window = std::chrono::milliseconds(config.token_window_ms);
  out.token_once = config.token_once;
  // What comes over the API has not been through the manifest's bounds.
  out.max_value = std::clamp(config.max_value, proto::kMinPiiValue, proto::kMaxPiiValue);
  out.max_growth = std::clamp(config.max_growth, proto::kMinPiiGrowth, proto::kMaxPiiGrowth);
  return out;
}

}
