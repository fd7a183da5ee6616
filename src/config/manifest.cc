// The reader of mvm.toml. toml++ turns the text into a tree with a place for every node; this file
// walks that tree along the schema. It branches on types and names only here, so that every
// complaint has the same form and each is in the list.

#include "mvm/config/manifest.h"

#include <algorithm>
#include <functional>
#include <set>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/policy/compile.h"

#include "secret_reader.h"
#include "toml.h"

namespace mvm::config {

std::string wrong_type(std::string_view name, std::string_view expected, const toml::node& node) {
  std::string_view got = "something else";
  switch (node.type()) {
    case toml::node_type::table:
      got = "a table";
      break;
    case toml::node_type::array:
      got = "an array";
      break;
    case toml::node_type::string:
      got = "a string";
      break;
    case toml::node_type::integer:
      got = "an integer";
      break;
    case toml::node_type::floating_point:
      got = "a float";
      break;
    case toml::node_type::boolean:
      got = "a boolean";
      break;
    case toml::node_type::date:
      got = "a date";
      break;
    case toml::node_type::time:
      got = "a time";
      break;
    case toml::node_type::date_time:
      got = "a date-time";
      break;
    case toml::node_type::none:
      break;
  }
  return "'" + std::string(name) + "' must be " + std::string(expected) + ", not " +
         std::string(got);
}

namespace {

// One [[network.routes]] after another. Names of its keys are few and fixed, so they stand here and
// not in the schema.
class RouteReader {
 public:
  using Complain = std::function<void(const toml::source_position&, std::string)>;
  explicit RouteReader(Complain complain) : complain_(std::move(complain)) {}

  std::vector<proto::NetworkRoute> read(const toml::node& node) {
    std::vector<proto::NetworkRoute> out;
    const toml::array* routes = node.as_array();
    if (routes == nullptr) {
      wrong("routes", "tables: [[network.routes]]", node);
      return out;
    }
    for (const toml::node& entry : *routes) {
      if (const toml::table* table = entry.as_table())
        out.push_back(read_route(*table));
      else
        wrong("routes", "tables: [[network.routes]]", entry);
      if (out.size() == kMaxTableEntries) {
        complain_(entry.source().begin,
                  "there are more than " + std::to_string(kMaxTableEntries) + " routes");
        break;
      }
    }
    return out;
  }

 private:
  proto::NetworkRoute read_route(const toml::table& table) {
    proto::NetworkRoute route;
    bool has_host = false;
    for (const auto& [name, node] : table) {
      if (name == "id") {
        text(name.str(), node, route.id);
      } else if (name == "host") {
        has_host = text(name.str(), node, route.host, policy::host_complaint);
      } else if (name == "port") {
        port(node, route.ports);
      } else if (name == "ports") {
        ports(node, route.ports);
      } else if (name == "otherwise") {
        text(name.str(), node, route.otherwise, otherwise_complaint);
      } else if (name == "intercept") {
        intercept(node);
      } else if (name == "rules") {
        rules(node, route.rules);
      } else {
        unknown(name, "network.routes", {"id", "host", "port", "ports", "otherwise", "rules"});
      }
    }
    if (!has_host && !table.contains("host"))
      complain_(table.source().begin, "a route needs a 'host'");
    return route;
  }

  proto::NetworkRouteRule read_rule(const toml::table& table) {
    proto::NetworkRouteRule rule;
    for (const auto& [name, node] : table) {
      if (name == "id")
        text(name.str(), node, rule.id);
      else if (name == "method")
        text(name.str(), node, rule.method, method_complaint);
      else if (name == "path")
        text(name.str(), node, rule.path, path_complaint);
      else if (name == "outcome")
        text(name.str(), node, rule.outcome, outcome_complaint);
      else
        unknown(name, "network.routes.rules", {"id", "method", "path", "outcome"});
    }
    return rule;
  }

  void rules(const toml::node& node, std::vector<proto::NetworkRouteRule>& out) {
    const toml::array* entries = node.as_array();
    if (entries == nullptr) return wrong("rules", "an array of tables", node);
    for (const toml::node& entry : *entries) {
      if (out.size() == kMaxTableEntries)
        return complain_(entry.source().begin,
                         "a route has more than " + std::to_string(kMaxTableEntries) + " rules");
      if (const toml::table* table = entry.as_table())
        out.push_back(read_rule(*table));
      else
        wrong("rules", "an array of tables", entry);
    }
  }

  using Check = std::optional<std::string> (*)(std::string_view);
  static std::optional<std::string> outcome_complaint(std::string_view text) {
    if (policy::parse_outcome(text)) return std::nullopt;
    return "must be \"allow\", \"deny\" or \"ask\", not '" + printable(text, 40) + "'";
  }
  static std::optional<std::string> otherwise_complaint(std::string_view text) {
    return text.empty() ? std::nullopt : outcome_complaint(text);
  }
  static std::optional<std::string> path_complaint(std::string_view text) {
    if (policy::PathPattern::parse(text)) return std::nullopt;
    return "must be a path such as \"/v1/**\" or \"/repos/*/issues\", not '" + printable(text, 80) +
           "'";
  }
  static std::optional<std::string> method_complaint(std::string_view text) {
    const bool fine = text == "*" || (!text.empty() && std::ranges::all_of(text, [](char c) {
                        return (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
                      }));
    if (fine) return std::nullopt;
    return "must be a method such as \"GET\", or \"*\", not '" + printable(text, 40) + "'";
  }

  bool text(std::string_view name, const toml::node& node, std::string& into,
            Check check = nullptr) {
    const auto* value = node.as_string();
    if (value == nullptr) {
      wrong(name, "a string", node);
      return false;
    }
    if (value->get().size() > proto::kMaxNetworkText) {
      complain_(node.source().begin, "'" + std::string(name) + "' is longer than " +
                                         std::to_string(proto::kMaxNetworkText) + " bytes");
      return false;
    }
    if (const auto complaint = check == nullptr ? std::nullopt : check(value->get())) {
      complain_(node.source().begin, "'" + std::string(name) + "' " + *complaint);
      return false;
    }
    into = value->get();
    return true;
  }

  void port(const toml::node& node, std::vector<uint16_t>& into) {
    const auto* value = node.as_integer();
    if (value == nullptr) return wrong("port", "an integer", node);
    if (value->get() < 1 || value->get() > 65535)
      return complain_(node.source().begin,
                       "'port' must be from 1 to 65535, not " + std::to_string(value->get()));
    into.push_back(static_cast<uint16_t>(value->get()));
  }

  void ports(const toml::node& node, std::vector<uint16_t>& into) {
    const toml::array* entries = node.as_array();
    if (entries == nullptr) return wrong("ports", "an array of integers", node);
    for (const toml::node& entry : *entries) port(entry, into);
  }

  void intercept(const toml::node& node) {
    const auto* value = node.as_boolean();
    if (value == nullptr) return wrong("intercept", "true or false", node);
    if (!value->get())
      complain_(
          node.source().begin,
          "'intercept' cannot be false: a route judges requests, and nobody sees them without; "
          "a host that may be reached as it is belongs to allow_hosts");
  }

  void unknown(const toml::key& name, std::string_view table,
               const std::vector<std::string_view>& known) {
    std::string message =
        "unknown key '" + printable(name.str(), 40) + "' in [[" + std::string(table) + "]]";
    if (const auto near = nearest(name.str().substr(0, 64), known))
      message += "; did you mean '" + *near + "'?";
    complain_(name.source().begin, message);
  }

  void wrong(std::string_view name, std::string_view expected, const toml::node& node) {
    complain_(node.source().begin, wrong_type(name, expected, node));
  }

  Complain complain_;
};

class ManifestReader {
 public:
  void read(const toml::table& root) { read_table("", root); }
  Parsed finish() {
    for (const auto& [name, rule] : out_.settings.secrets)
      if (out_.settings.env.contains(name))
        complain({}, "'env' and 'secrets' both set " + name + "; one of the two would not hold");
    std::stable_sort(out_.complaints.begin(), out_.complaints.end(),
                     [](const Complaint& a, const Complaint& b) {
                       return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                     });
    return std::move(out_);
  }

 private:
  void read_table(std::string_view table, const toml::table& nodes) {
    for (const auto& [name, node] : nodes) {
      if (const Key* key = find_key(table, name.str())) {
        if (once(*key, table, name)) read_value(*key, node);
      } else if (const LaterKey* later = find_later(table, name.str()))
        complain(name.source().begin,
                 "'" + std::string(name.str()) + "': " + std::string(later->why));
      else if (is_table_name(path_of(table, name.str())))
        read_subtable(path_of(table, name.str()), node);
      else
        complain_unknown(table, name);
    }
  }

  // TOML itself refuses a key that is there twice; two spellings of one setting are up to us.
  bool once(const Key& key, std::string_view table, const toml::key& name) {
    if (seen_.insert(key.path()).second) return true;
    complain(name.source().begin, "'" + path_of(table, name.str()) +
                                      "' is the same setting as another line here; write "
                                      "it once, as '" +
                                      key.path() + "'");
    return false;
  }

  void read_subtable(std::string_view name, const toml::node& node) {
    if (const toml::table* inner = node.as_table())
      read_table(name, *inner);
    else
      complain(node.source().begin, wrong_type(name, "a table", node));
  }

  void read_value(const Key& key, const toml::node& node) {
    switch (key.type) {
      case Type::Boolean:
        if (const auto* value = node.as_boolean())
          return set(key, node, value->get() ? "true" : "false");
        return complain(node.source().begin, wrong_type(key.name, "true or false", node));
      case Type::Integer:
        if (const auto* value = node.as_integer()) return set_integer(key, node, value->get());
        return complain(node.source().begin, wrong_type(key.name, "an integer", node));
      case Type::Size:
        return read_text(key, node, "a size in quotes such as \"768M\"");
      case Type::Duration:
        return read_text(key, node, "a duration in quotes such as \"30s\"");
      case Type::Text:
        return read_text(key, node, "a string");
      case Type::TextTable:
        return read_entries(key, node);
      case Type::TextList:
        return read_list(key, node);
      case Type::Secrets: {
        SecretReader secrets([this](const toml::source_position& at, std::string message) {
          complain(at, std::move(message));
        });
        out_.settings.secrets = secrets.read(node);
        return;
      }
      case Type::Routes: {
        RouteReader routes([this](const toml::source_position& at, std::string message) {
          complain(at, std::move(message));
        });
        out_.settings.*std::get<std::vector<proto::NetworkRoute> Settings::*>(key.target) =
            routes.read(node);
        return;
      }
    }
  }

  void read_text(const Key& key, const toml::node& node, std::string_view expected) {
    if (const auto* value = node.as_string())
      set(key, node, value->get());
    else
      complain(node.source().begin, wrong_type(key.name, expected, node));
  }

  void set_integer(const Key& key, const toml::node& node, int64_t value) {
    if (value < 0)
      return complain(node.source().begin, "'" + std::string(key.name) + "' must be from " +
                                               std::to_string(key.minimum) + " to " +
                                               std::to_string(key.maximum) + ", not " +
                                               std::to_string(value));
    set(key, node, std::to_string(value));
  }

  void set(const Key& key, const toml::node& node, std::string_view text) {
    // In a manifest an empty text is the same as no line at all.
    if (key.type == Type::Text && text.empty() && !key.if_empty.empty()) return;
    if (const auto complaint = set_from_text(key, text, out_.settings))
      complain(node.source().begin, "'" + std::string(key.name) + "' " + *complaint);
  }

  void read_entries(const Key& key, const toml::node& node) {
    const toml::table* entries = node.as_table();
    if (entries == nullptr)
      return complain(node.source().begin, wrong_type(key.name, "a table", node));
    if (entries->size() > kMaxTableEntries)
      return complain(node.source().begin,
                      "'" + std::string(key.name) + "' has " + std::to_string(entries->size()) +
                          " entries; the most is " + std::to_string(kMaxTableEntries));
    auto& into =
        out_.settings.*std::get<std::map<std::string, std::string> Settings::*>(key.target);
    for (const auto& [name, value] : *entries) {
      const auto* text = value.as_string();
      if (text == nullptr) {
        complain(
            value.source().begin,
            wrong_type(std::string(key.name) + "." + printable(name.str(), 40), "a string", value));
      } else if (const auto complaint = key.check(name.str(), text->get())) {
        complain(name.source().begin, "'" + std::string(key.name) + "." +
                                          printable(name.str(), 40) + "': " + *complaint);
      } else {
        into.emplace(name.str(), text->get());
      }
    }
  }

  void read_list(const Key& key, const toml::node& node) {
    const toml::array* texts = node.as_array();
    if (texts == nullptr)
      return complain(node.source().begin, wrong_type(key.name, "an array of strings", node));
    for (const toml::node& text : *texts) {
      if (const auto* value = text.as_string())
        set(key, text, value->get());
      else
        complain(text.source().begin, wrong_type(key.name, "an array of strings", text));
    }
  }

  static const LaterKey* find_later(std::string_view table, std::string_view name) {
    for (const LaterKey& later : later_keys())
      if (later.table == table && later.name == name) return &later;
    return nullptr;
  }

  // "network.limits"
  static std::string path_of(std::string_view table, std::string_view name) {
    return table.empty() ? std::string(name) : std::string(table) + "." + std::string(name);
  }

  static bool is_table_name(std::string_view name) {
    return std::ranges::any_of(keys(), [&](const Key& key) { return key.table == name; });
  }

  void complain_unknown(std::string_view table, const toml::key& name) {
    std::vector<std::string_view> known;
    for (const Key& key : keys()) {
      if (key.table == table) known.push_back(key.name);
      // A table right below this one.
      const size_t dot = key.table.rfind('.');
      const auto above = key.table.substr(0, dot == key.table.npos ? 0 : dot);
      if (!key.table.empty() && above == table)
        known.push_back(key.table.substr(dot == key.table.npos ? 0 : dot + 1));
    }
    for (const LaterKey& later : later_keys())
      if (later.table == table) known.push_back(later.name);
    for (const Spelling& other : spellings())
      if (other.table == table) known.push_back(other.name);

    std::string message = "unknown key '" + printable(name.str(), 40) + "'";
    if (!table.empty()) message += " in [" + std::string(table) + "]";
    if (const auto near = nearest(name.str().substr(0, 64), known)) {
      message += "; did you mean '" + *near + "'?";
    } else if (const auto home = home_of(name.str())) {
      message += "; it belongs to " + *home;
    }
    complain(name.source().begin, message);
  }

  // A known name in the wrong table is a common slip: `cpus` below `[env]`'s neighbour, say.
  static std::optional<std::string> home_of(std::string_view name) {
    for (const Key& key : keys())
      if (key.name == name)
        return key.table.empty() ? "the top of the file" : "[" + std::string(key.table) + "]";
    return std::nullopt;
  }

  void complain(const toml::source_position& at, std::string message) {
    if (out_.complaints.size() == kMaxComplaints) return;
    out_.complaints.push_back({at.line, at.column, std::move(message)});
  }

  std::set<std::string> seen_;  // paths of keys
  Parsed out_;
};

}

std::string Complaint::text(std::string_view file) const {
  std::string out(file);
  if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  return out + ": " + message;
}

// The line that the parser cannot get past: the parser reads from front to end, so it gets stuck
// on every beginning of the text that has the line, and on none that has not.
static uint32_t stuck_line(std::string_view text) {
  const auto lines = split(text, '\n');
  const auto stuck_within = [&](size_t count) {
    const auto& last = lines[count - 1];
    const auto length = static_cast<size_t>(last.data() + last.size() - text.data());
    try {
      static_cast<void>(toml::parse(text.substr(0, length)));
    } catch (const toml::parse_error&) {
      return false;
    } catch (const ParserStuck&) {
      return true;
    }
    return false;
  };
  size_t free = 0;  // so many lines are read without getting stuck
  size_t stuck = lines.size();
  while (stuck - free > 1) {
    const size_t middle = free + (stuck - free) / 2;
    (stuck_within(middle) ? stuck : free) = middle;
  }
  return static_cast<uint32_t>(stuck);
}

Parsed parse_manifest(std::string_view text) {
  Parsed failed;
  if (text.size() > kMaxManifest) {
    failed.complaints.push_back({0, 0,
                                 "a manifest has at most " + format_size(kMaxManifest) + ", not " +
                                     std::to_string(text.size()) + " bytes"});
    return failed;
  }
  try {
    ManifestReader reader;
    reader.read(toml::parse(text));
    return reader.finish();
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    failed.complaints.push_back({at.line, at.column, printable(error.description(), 300)});
    return failed;
  } catch (const ParserStuck&) {
    failed.complaints.push_back({stuck_line(text), 1, "this line is no valid TOML"});
    return failed;
  }
}

Settings read_manifest(std::string_view text, std::string_view file) {
  Parsed parsed = parse_manifest(text);
  if (parsed.complaints.empty()) return std::move(parsed.settings);
  std::string all;
  for (const Complaint& complaint : parsed.complaints) {
    if (!all.empty()) all += '\n';
    all += complaint.text(file);
  }
  throw Error(Kind::Invalid, all);
}

}
