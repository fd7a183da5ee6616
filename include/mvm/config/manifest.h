#pragma once
// mvm.toml: text in, settings or complaints out. No files, no environment: callers hand those in.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/config/schema.h"
#include "mvm/config/settings.h"

namespace mvm::config {

inline constexpr std::string_view kManifestName = "mvm.toml";
inline constexpr size_t kMaxManifest = size_t{1} << 20;  // bytes
inline constexpr size_t kMaxComplaints = 100;            // the rest is only counted

struct Complaint {
  uint32_t line = 0;
  uint32_t column = 0;
  std::string message;
  bool operator==(const Complaint&) const = default;
  std::string text(std::string_view file) const;  // "mvm.toml:7:3: unknown key 'memm'; …"
};

struct Parsed {
  Settings settings;
  std::vector<Complaint> complaints;  // in the order of the file; empty when all is well
};

// Reads a whole manifest. Every complaint is reported, not just the first; a TOML syntax error ends
// the reading, as nothing after it can be trusted. Never throws on its content.
Parsed parse_manifest(std::string_view text);

// The same for callers with nothing to do but report: throws Error{Invalid} with one line a
// complaint.
Settings read_manifest(std::string_view text, std::string_view file);

// The MVM_* variables. Throws Error{Invalid} naming the variable.
Settings settings_from_environment(
    const std::function<std::optional<std::string>(std::string_view)>& variable);

// What holds where nobody decides.
Settings default_settings();

// One source with the name `mvm config show` gives it.
struct Layer {
  std::string origin;
  Settings settings;
};

struct Resolved {
  Settings settings;
  std::vector<std::string> origins;  // one a row of keys(); "" where nothing decided
};

// First layer wins, setting by setting; tables merge name by name.
Resolved resolve(std::span<const Layer> layers);

// ---- texts that are made from the schema ------------------------------------------------------
std::string show(const Resolved& resolved);  // a valid manifest, each line with its origin
std::string example_manifest();              // mvm.toml.example
std::string manifest_reference();            // docs/mvm-toml.md
// What `mvm init` writes.
std::string starter_manifest(std::string_view name, std::string_view image);

}
