// What people read about mvm.toml, made from the schema.

#include <algorithm>

#include "mvm/base/text.h"
#include "mvm/config/manifest.h"

namespace mvm::config {
namespace {

using Table = std::map<std::string, std::string> Settings::*;

// Words of `text` in lines of at most `width`, each behind `prefix`.
std::string wrapped(std::string_view text, std::string_view prefix, size_t width) {
  std::string out;
  std::string line;
  for (const std::string_view word : split(text, ' ')) {
    if (!line.empty() && prefix.size() + line.size() + 1 + word.size() > width) {
      out += std::string(prefix) + line + '\n';
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  return out + std::string(prefix) + line + '\n';
}

std::string type_text(const Key& key) {
  switch (key.type) {
    case Type::Text:
      return "string";
    case Type::Boolean:
      return "boolean";
    case Type::Integer:
      return "integer, " + std::to_string(key.minimum) + " to " + std::to_string(key.maximum);
    case Type::Size:
      return "size, " + format_size(key.minimum) + " to " + format_size(key.maximum);
    case Type::Duration:
      return "duration, " + format_duration_ms(key.minimum) + " to " +
             format_duration_ms(key.maximum);
    case Type::TextTable:
      return "table of strings";
    case Type::TextList:
      return "array of strings";
    case Type::Routes:
    case Type::Secrets:
      return "tables";
  }
  return "";
}

std::string default_text(const Key& key) {
  if (key.type == Type::TextTable || key.type == Type::TextList || key.type == Type::Routes ||
      key.type == Type::Secrets)
    return "empty";
  if (key.fallback.empty()) return std::string(key.if_empty);
  const bool bare = key.type == Type::Integer || key.type == Type::Boolean;
  return "`" + (bare ? std::string(key.fallback) : quoted(key.fallback)) + "`";
}

bool bare_key(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

// Calls `row` for each key, plain keys before tables, and `heading` before each table: the order
// that TOML wants.
template <typename Heading, typename Row>
void in_file_order(const Heading& heading, const Row& row) {
  const auto all = keys();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].table.empty() && all[i].type != Type::TextTable) row(all[i], i);
  std::string_view table;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].type == Type::TextTable) {
      heading(all[i].name, &all[i]);
      row(all[i], i);
    } else if (!all[i].table.empty()) {
      if (all[i].table != table) heading(all[i].table, nullptr);
      table = all[i].table;
      row(all[i], i);
    }
  }
}

constexpr std::string_view kExampleRoute =
    "# [[network.routes]]\n# id = \"forge\"\n# host = \"api.example.com\"\n# port = 443\n"
    "# otherwise = \"deny\"\n# rules = [\n"
    "#   { id = \"read\", method = \"GET\", path = \"/repos/**\", outcome = \"allow\" },\n# ]\n";

std::string written_routes(const std::vector<proto::NetworkRoute>& routes) {
  std::string out;
  const auto line = [&out](std::string_view name, const std::string& value) {
    out += std::string(name) + " = " + value + '\n';
  };
  for (const proto::NetworkRoute& route : routes) {
    out += "\n[[network.routes]]\n";
    if (!route.id.empty()) line("id", quoted(route.id));
    line("host", quoted(route.host));
    std::string ports;
    for (const uint16_t port : route.ports)
      ports += (ports.empty() ? "" : ", ") + std::to_string(port);
    if (!ports.empty()) line("ports", "[" + ports + "]");
    line("otherwise", quoted(route.otherwise));
    for (const proto::NetworkRouteRule& rule : route.rules) {
      out += "[[network.routes.rules]]\n";
      if (!rule.id.empty()) line("id", quoted(rule.id));
      line("method", quoted(rule.method));
      line("path", quoted(rule.path));
      line("outcome", quoted(rule.outcome));
    }
  }
  return out;
}

constexpr std::string_view kExampleSecrets =
    "# [secrets]\n# OPENAI_API_KEY = \"env:OPENAI_API_KEY\"\n"
    "# FORGE_TOKEN = { from = \"file:~/.forge-token\", hosts = [\"git.example.com\"], "
    "places = [\"header\", \"basic\"] }\n";

std::string written_secrets(const std::map<std::string, proto::SecretRule>& secrets) {
  std::string out;
  for (const auto& [name, rule] : secrets) {
    out += "\n[secrets." + name + "]\n";
    const auto text = [&out](std::string_view key, const std::string& value) {
      if (!value.empty()) out += std::string(key) + " = " + quoted(value) + '\n';
    };
    const auto list = [&out](std::string_view key, const std::vector<std::string>& values) {
      std::string all;
      for (const std::string& value : values) all += (all.empty() ? "" : ", ") + quoted(value);
      if (!all.empty()) out += std::string(key) + " = [" + all + "]\n";
    };
    text("from", rule.from);
    list("hosts", rule.hosts);
    list("places", rule.places);
    list("headers", rule.headers);
    text("prefix", rule.prefix);
    if (rule.plaintext) out += "plaintext = true\n";
    text("on_misuse", rule.on_misuse);
    text("on_unreadable", rule.on_unreadable);
    if (rule.require) out += "require = true\n";
  }
  return out;
}

}

std::string show(const Resolved& resolved) {
  std::string out;
  std::string routes_at_the_end;  // where no key of another table can follow
  in_file_order(
      [&](std::string_view name, const Key*) { out += "\n[" + std::string(name) + "]\n"; },
      [&](const Key& key, size_t index) {
        if (key.type == Type::TextTable) {
          for (const auto& [name, value] : resolved.settings.*std::get<Table>(key.target))
            out += (bare_key(name) ? name : quoted(name)) + " = " + quoted(value) + '\n';
          return;
        }
        if (key.type == Type::Routes) {
          routes_at_the_end = written_routes(resolved.settings.routes);
          return;
        }
        if (key.type == Type::Secrets) return;  // likewise
        const auto value = written_value(key, resolved.settings);
        if (!value && key.if_empty.empty()) return;  // without a default among the layers
        std::string line = std::string(key.name) + " = " + value.value_or("\"\"");
        line.resize(std::max<size_t>(line.size() + 2, 28), ' ');
        const std::string& origin = resolved.origins.at(index);
        out += line + "# " + (value ? origin : std::string(key.if_empty)) + '\n';
      });
  return out + routes_at_the_end + written_secrets(resolved.settings.secrets);
}

std::string example_manifest() {
  std::string out =
      "# mvm.toml: every key of the manifest, with its default. `mvm up` reads this file from the\n"
      "# current folder; flags and MVM_* variables win over it. An unknown key is an error.\n";
  const Settings defaults = default_settings();
  in_file_order(
      [&](std::string_view name, const Key* key) {
        out += '\n';
        if (key != nullptr) out += wrapped(key->doc, "# ", 100);
        out += "[" + std::string(name) + "]\n";
        if (key == nullptr) return;
        out += name == "env" ? "# PYTHONUNBUFFERED = \"1\"\n" : "# team = \"search\"\n";
      },
      [&](const Key& key, size_t) {
        if (key.type == Type::TextTable) return;
        if (key.table.empty()) out += '\n';
        out += wrapped(key.doc, "# ", 100);
        if (!key.if_empty.empty()) out += "# Empty: " + std::string(key.if_empty) + ".\n";
        if (key.type == Type::Routes || key.type == Type::Secrets) {
          out += std::string(key.type == Type::Routes ? kExampleRoute : kExampleSecrets);
          return;
        }
        out += std::string(key.name) + " = " + written_value(key, defaults).value_or("\"\"") + '\n';
      });
  return out;
}

std::string manifest_reference() {
  std::string out =
      "# mvm.toml\n\n"
      "`mvm up` reads `mvm.toml` from the current folder, or the file that `-f` names. A value is\n"
      "taken from the command line, else from the variable, else from the file, else it is the\n"
      "default; `mvm config show` prints each value with the place it came from.\n\n"
      "The file is strict. An unknown key, a value of the wrong type or out of range is an error\n"
      "with its line and column, and all of them are reported at once; `mvm config validate`\n"
      "checks a file without starting anything. Sizes are written `\"768M\"`, `\"2G\"` (powers of\n"
      "1024), durations `\"500ms\"`, `\"30s\"`, `\"1m30s\"`. An empty string is the same as no "
      "line.\n"
      "A file has at most " +
      format_size(kMaxManifest) + ", a table at most " + std::to_string(kMaxTableEntries) +
      " entries.\n\n"
      "| key | type | default | flag of `mvm up` | variable | |\n|---|---|---|---|---|---|\n";
  const auto code = [](std::string_view text) {
    return text.empty() ? std::string() : "`" + std::string(text) + "`";
  };
  for (const Key& key : keys())
    out += "| `" + (key.type == Type::TextTable ? "[" + key.path() + "]" : key.path()) + "` | " +
           type_text(key) + " | " + default_text(key) + " | " + code(key.flag) + " | " +
           code(key.environment) + " | " + std::string(key.doc) + " |\n";
  for (const Spelling& other : spellings())
    out += "\n`" + std::string(other.table) + "." + std::string(other.name) +
           "` is another spelling of `" + find_key(other.key_table, other.key_name)->path() +
           "`.\n";
  out +=
      "\n## Names that are refused\n\n"
      "These names are reserved. A file that uses one is refused with the reason, never read as "
      "if\n"
      "the line were not there.\n\n| key | reason |\n|---|---|\n";
  for (const LaterKey& later : later_keys()) {
    const std::string table(later.table);
    out += "| `" + (table.empty() ? "" : table + ".") + std::string(later.name) + "` | " +
           std::string(later.why) + " |\n";
  }
  out += "\n## Every key, with its default\n\n```toml\n" + example_manifest() + "```\n";
  return out;
}

std::string starter_manifest(std::string_view name, std::string_view image) {
  return "# Start it with `mvm up`. Every key: docs/mvm-toml.md, or `mvm config show`.\n"
         "name = " +
         quoted(name) + "\nimage = " + quoted(image) +
         "\ncpus = 1\nmem = \"512M\"\ndisk = \"8G\"\n\n"
         "# Environment of every command.\n[env]\n# PYTHONUNBUFFERED = \"1\"\n";
}

}
