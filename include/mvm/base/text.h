#pragma once
// Small text helpers shared by everything that talks to people.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mvm {

// Names of sandboxes and images become file names and URL path parts: 1 to 63 of [a-z A-Z 0-9 . _
// -], starting with a letter or digit. Returns the complaint, or nothing when the name is good.
inline constexpr size_t kMaxName = 63;
std::optional<std::string> name_complaint(std::string_view name);

// Edit distance (insert, delete, replace, swap of neighbours).
size_t edit_distance(std::string_view a, std::string_view b);
// The candidate nearest to `word`, when it is near enough to be a plausible slip.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string_view> candidates);

// "768M", "2G", "512K", "4096" (bytes). Binary multiples; "MiB", "MB" and "m" are read alike.
std::optional<uint64_t> parse_size(std::string_view text);
std::string format_size(uint64_t bytes);  // "768 MiB"

// "30s", "1m30s", "500ms", "2h"; a bare number is seconds. In milliseconds.
std::optional<uint64_t> parse_duration_ms(std::string_view text);
std::string format_duration_ms(uint64_t milliseconds);

std::optional<uint64_t> parse_u64(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);
std::string hex(std::span<const std::byte> bytes);

// Shows text from outside on a terminal: control bytes (and so escape sequences) become \xNN, at
// most `limit` bytes.
std::string printable(std::string_view text, size_t limit = 200);

}
