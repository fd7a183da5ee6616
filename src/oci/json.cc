#include "json.h"

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/oci/document.h"

namespace mvm::oci {

Json parse_json(std::string_view text, const std::string& what) {
  Json json = json::parse(text, what, {.bytes = kMaxDocument});
  if (!json.is_structured()) throw Error(Kind::Invalid, what + " is no JSON document");
  return json;
}

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

static std::string text_value(const Json& value, const std::string& where) {
  if (!value.is_string()) throw Error(Kind::Invalid, where + " must be text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kMaxConfigText)
    throw Error(Kind::Exhausted, where + " is longer than " + format_size(kMaxConfigText));
  if (text.find('\0') != text.npos)
    throw Error(Kind::Invalid, where + " has a zero byte in its text");
  return text;
}

std::string text_of(const Json& object, const char* key, const std::string& where) {
  const Json* value = member(object, key);
  return value == nullptr ? "" : text_value(*value, where + "." + key);
}

std::vector<std::string> texts_of(const Json& object, const char* key, const std::string& where) {
  std::vector<std::string> texts;
  if (member(object, key) == nullptr) return texts;
  for (const Json& value : array_of(object, key, where, kMaxConfigTexts))
    texts.push_back(text_value(value, where + "." + key + "[]"));
  return texts;
}

const Json& array_of(const Json& object, const char* key, const std::string& where, size_t limit) {
  const Json* value = member(object, key);
  if (value == nullptr || !value->is_array())
    throw Error(Kind::Invalid, where + "." + key + " must be an array");
  if (value->size() > limit)
    throw Error(Kind::Exhausted,
                where + "." + key + " has more than " + std::to_string(limit) + " entries");
  return *value;
}

}
