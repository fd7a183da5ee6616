#include "secret_reader.h"

#include <array>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/compile.h"
#include "mvm/policy/secret.h"

namespace mvm::config {

// A manifest comes with a project, and what it names here would run on the host.
static std::optional<std::string> reference_complaint(std::string_view text) {
  if (auto complaint = policy::secret_reference_complaint(text)) return complaint;
  if (!text.starts_with("cmd:")) return std::nullopt;
  return "cannot be a command here, because a manifest must not run programs on the host; name the "
         "command once yourself with `mvm secret set NAME --from cmd:…`";
}

std::map<std::string, proto::SecretRule> SecretReader::read(const toml::node& node) {
  std::map<std::string, proto::SecretRule> out;
  const toml::table* rules = node.as_table();
  if (rules == nullptr) {
    complain_(node.source().begin, wrong_type("secrets", "a table", node));
    return out;
  }
  for (const auto& [name, entry] : *rules) {
    rule_ = "secrets." + printable(name.str(), 60);
    if (const auto complaint = policy::secret_name_complaint(name.str())) {
      complain_(name.source().begin, "'secrets': " + *complaint);
      continue;
    }
    if (out.size() == proto::kMaxSecrets) {
      complain_(name.source().begin,
                "'secrets' has more than " + std::to_string(proto::kMaxSecrets) + " entries");
      break;
    }
    proto::SecretRule& rule = out[std::string(name.str())];
    rule.name = name.str();
    if (entry.is_string())
      text("from", entry, rule.from, reference_complaint);
    else if (const toml::table* table = entry.as_table())
      read_rule(*table, rule);
    else
      complain_(entry.source().begin,
                wrong_type(rule_, "a table such as { hosts = [\"api.example.com\"] }", entry));
    if (policy::with_provider(rule).hosts.empty())
      complain_(name.source().begin, "'" + rule_ +
                                         "' needs `hosts`: those that it may go to, such as "
                                         "[\"api.example.com\"]");
  }
  return out;
}

void SecretReader::read_rule(const toml::table& table, proto::SecretRule& rule) {
  for (const auto& [name, node] : table) {
    const std::string_view key = name.str();
    if (key == "from") {
      text(key, node, rule.from, reference_complaint);
    } else if (key == "hosts") {
      texts(key, node, rule.hosts, policy::host_complaint);
    } else if (key == "places") {
      texts(key, node, rule.places, policy::secret_place_complaint);
    } else if (key == "headers") {
      texts(key, node, rule.headers, policy::secret_header_complaint);
    } else if (key == "prefix") {
      text(key, node, rule.prefix, policy::secret_prefix_complaint);
    } else if (key == "plaintext") {
      boolean(key, node, rule.plaintext);
    } else if (key == "on_misuse") {
      text(key, node, rule.on_misuse, policy::secret_misuse_complaint);
    } else if (key == "on_unreadable") {
      text(key, node, rule.on_unreadable, policy::secret_unreadable_complaint);
    } else if (key == "require") {
      boolean(key, node, rule.require);
    } else {
      constexpr auto kKnown =
          std::to_array<std::string_view>({"from", "hosts", "places", "headers", "prefix",
                                           "plaintext", "on_misuse", "on_unreadable", "require"});
      std::string message = "unknown key '" + printable(key, 40) + "' in '" + rule_ + "'";
      if (const auto near = nearest(key.substr(0, 64), kKnown))
        message += "; did you mean '" + *near + "'?";
      complain_(name.source().begin, message);
    }
  }
  if (rule.headers.empty() || rule.places.empty()) return;
  for (const std::string& word : rule.places)
    if (word == "header") return;
  complain_(table.source().begin,
            "'" + rule_ + "' has headers, but \"header\" is none of its places");
}

void SecretReader::text(std::string_view name, const toml::node& node, std::string& into,
                        Check check) {
  const auto* value = node.as_string();
  if (value == nullptr)
    return complain_(node.source().begin, wrong_type(place(name), "a string", node));
  if (const auto complaint = check(value->get()))
    return complain_(node.source().begin, "'" + place(name) + "' " + *complaint);
  into = value->get();
}

// One text stands for a list of one.
void SecretReader::texts(std::string_view name, const toml::node& node,
                         std::vector<std::string>& into, Check check) {
  const auto add = [&](const toml::node& entry) {
    std::string one;
    text(name, entry, one, check);
    if (!one.empty()) into.push_back(std::move(one));
  };
  if (node.is_string()) return add(node);
  const toml::array* entries = node.as_array();
  if (entries == nullptr)
    return complain_(node.source().begin, wrong_type(place(name), "an array of strings", node));
  for (const toml::node& entry : *entries) add(entry);
  if (into.size() <= proto::kMaxSecretWords) return;
  into.resize(proto::kMaxSecretWords);
  complain_(node.source().begin, "'" + place(name) + "' has more than " +
                                     std::to_string(proto::kMaxSecretWords) + " entries");
}

void SecretReader::boolean(std::string_view name, const toml::node& node, bool& into) {
  const auto* value = node.as_boolean();
  if (value == nullptr)
    return complain_(node.source().begin, wrong_type(place(name), "true or false", node));
  into = value->get();
}

}
