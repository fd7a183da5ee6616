#pragma once
// Members of JSON documents of images.

#include <string>
#include <string_view>
#include <vector>

#include "mvm/json/json.h"

namespace mvm::oci {

using Json = json::Value;

// An object or array within kMaxDocument; `what` names it in messages.
Json parse_json(std::string_view text, const std::string& what);

// Members of an object. `where` names it in messages: "manifest.layers[3]". An absent or null
// member gives the empty value.
const Json* member(const Json& object, const char* key);
std::string text_of(const Json& object, const char* key, const std::string& where);
std::vector<std::string> texts_of(const Json& object, const char* key, const std::string& where);
// A mandatory array of at most `limit` elements.
const Json& array_of(const Json& object, const char* key, const std::string& where, size_t limit);

}
