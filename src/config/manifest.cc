// The reader of mvm.toml. toml++ turns the text into a tree with a place for every node; this file
// walks that tree along the schema. It branches on types and names only here, so that every
// complaint has the same form and each is in the list.

#include "mvm/config/manifest.h"

#include <algorithm>

#include <toml++/toml.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::config {
namespace {

class ManifestReader {
 public:
  void read(const toml::table& root) { read_table("", root); }
  Parsed finish() {
    std::stable_sort(out_.complaints.begin(), out_.complaints.end(),
                     [](const Complaint& a, const Complaint& b) {
                       return std::pair(a.line, a.column) < std::pair(b.line, b.column);
                     });
    return std::move(out_);
  }

 private:
  void read_table(std::string_view table, const toml::table& nodes) {
    for (const auto& [name, node] : nodes) {
      if (const Key* key = find_key(table, name.str()))
        read_value(*key, node);
      else if (const LaterKey* later = find_later(table, name.str()))
        complain(name.source().begin,
                 "'" + std::string(name.str()) + "': " + std::string(later->why));
      else if (table.empty() && is_table_name(name.str()))
        read_subtable(name.str(), node);
      else
        complain_unknown(table, name);
    }
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

  static const LaterKey* find_later(std::string_view table, std::string_view name) {
    for (const LaterKey& later : later_keys())
      if (later.table == table && later.name == name) return &later;
    return nullptr;
  }

  static bool is_table_name(std::string_view name) {
    return std::ranges::any_of(keys(), [&](const Key& key) { return key.table == name; });
  }

  void complain_unknown(std::string_view table, const toml::key& name) {
    std::vector<std::string_view> known;
    for (const Key& key : keys()) {
      if (key.table == table) known.push_back(key.name);
      if (table.empty() && !key.table.empty()) known.push_back(key.table);
    }
    for (const LaterKey& later : later_keys())
      if (later.table == table) known.push_back(later.name);

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

  static std::string wrong_type(std::string_view name, std::string_view expected,
                                const toml::node& node) {
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

  void complain(const toml::source_position& at, std::string message) {
    if (out_.complaints.size() == kMaxComplaints) return;
    out_.complaints.push_back({at.line, at.column, std::move(message)});
  }

  Parsed out_;
};

}

std::string Complaint::text(std::string_view file) const {
  std::string out(file);
  if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  return out + ": " + message;
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
