#pragma once
// Every setting as one row of data. The row drives the parser of mvm.toml, the nearest-name hint,
// the MVM_* variables, `mvm config show`, mvm.toml.example and docs/mvm-toml.md, so that none of
// them can say something that another does not.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "mvm/config/settings.h"

namespace mvm::config {

enum class Type {
  Text,
  Boolean,
  Integer,
  Size,       // "768M"; kept in bytes
  Duration,   // "1m30s"; kept in milliseconds
  TextTable,  // a table of NAME = "text"
  TextList,   // an array of strings
  Routes,     // an array of tables: [[network.routes]]
  Secrets,    // a table of tables: [secrets]
};

using Target =
    std::variant<std::optional<std::string> Settings::*, std::optional<uint64_t> Settings::*,
                 std::optional<bool> Settings::*, std::map<std::string, std::string> Settings::*,
                 std::vector<std::string> Settings::*, std::vector<proto::NetworkRoute> Settings::*,
                 std::map<std::string, proto::SecretRule> Settings::*>;

struct Key {
  std::string_view table;  // "" for the top level
  std::string_view name;
  Type type;
  Target target;
  std::string_view fallback;  // the default as it is written in the file; "" when there is none
  std::string_view if_empty;  // for a Text without a default: what mvm takes instead
  uint64_t minimum;           // of numbers, in the unit they are kept in
  uint64_t maximum;
  uint64_t multiple;  // of numbers: must divide the value; 1 when any will do
  // The complaint about a text (or about one entry's name and value of a TextTable, or one text of
  // a TextList), or nothing.
  std::optional<std::string> (*check)(std::string_view name, std::string_view value);
  std::string_view flag;         // how `mvm up` spells it, "" when it does not
  std::string_view environment;  // the variable that sets it, "" when there is none
  std::string_view doc;          // one or two sentences

  std::string path() const;  // "sandbox.ephemeral"
};

std::span<const Key> keys();
// By its own place or by another spelling of it.
const Key* find_key(std::string_view table, std::string_view name);

// Another place for the same setting.
struct Spelling {
  std::string_view table;
  std::string_view name;
  std::string_view key_table;
  std::string_view key_name;
};
std::span<const Spelling> spellings();

// A name that other versions of mvm.toml know. Using it is an error that says so: a setting that
// asks for protection must never be passed over in silence.
struct LaterKey {
  std::string_view table;
  std::string_view name;
  std::string_view why;
};
std::span<const LaterKey> later_keys();

// Sets one setting from text, as a variable or a flag gives it. Returns the complaint, without the
// place: "must be from 1 to 32, not 0".
// To a TextList and to Secrets it adds one.
std::optional<std::string> set_from_text(const Key& key, std::string_view text, Settings& settings);

// The value as it is written in a manifest (`"768M"`, `true`), or nothing when it is not set.
std::optional<std::string> written_value(const Key& key, const Settings& settings);

// Text as a TOML basic string.
std::string quoted(std::string_view text);

// Shared with flags that fill the tables: the complaint about one entry.
std::optional<std::string> env_complaint(std::string_view name, std::string_view value);
std::optional<std::string> label_complaint(std::string_view name, std::string_view value);

inline constexpr size_t kMaxTableEntries = 256;    // of [env] and of [labels]
inline constexpr size_t kMaxEnvValue = 32 * 1024;  // bytes
inline constexpr size_t kMaxLabelValue = 255;      // bytes

}
