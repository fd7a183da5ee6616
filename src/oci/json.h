#pragma once
// Bounded JSON.

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace mvm::oci {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonValues = 64 * 1024;

// An object or array; `what` names the document in messages.
Json parse_json(std::string_view text, const std::string& what);

// Members of an object. `where` names it in messages: "manifest.layers[3]". An absent or null
// member gives the empty value.
const Json* member(const Json& object, const char* key);
std::string text_of(const Json& object, const char* key, const std::string& where);
std::vector<std::string> texts_of(const Json& object, const char* key, const std::string& where);
// A mandatory array of at most `limit` elements.
const Json& array_of(const Json& object, const char* key, const std::string& where, size_t limit);

}
