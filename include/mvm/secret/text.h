#pragma once
// The ways in which text stands inside other text.

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

// Overwrites what a string held.
void wipe(std::string& text) noexcept;

}
