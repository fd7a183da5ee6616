#pragma once
// The ways in which text stands inside other text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mvm::secret {

std::string base64(std::string_view bytes);
// Padded or not; nothing for what is none.
std::optional<std::string> base64_decode(std::string_view text);

enum class Writing : uint8_t { Plain, Json, Percent };
// `text` as it is written inside a JSON string, or in a query or form.
std::string written(std::string_view text, Writing writing);

// Text of bytes, or of UTF-16 with the less or the more significant byte first.
enum class Units : uint8_t { Bytes, Little, Big };
bool is_ascii(std::string_view text) noexcept;
// `text`, which is ASCII, in `units`.
std::string in_units(std::string_view text, Units units);

// Overwrites what a string held.
void wipe(std::string& text) noexcept;

}
