#pragma once
// JSON to structs and back through one description of each struct's fields, so that the two
// directions cannot drift apart:
//
//   template <typename Io, typename T> void describe(Io& io, T& value);   // T may be const
//
// Io is a JsonWriter or a JsonReader.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"

namespace mvm::api {

using Json = json::Ordered;

[[noreturn]] inline void bad_json(const std::string& where, const std::string& complaint) {
  throw Error(Kind::Invalid, where + ": " + complaint);
}

// Messages are bounded by HTTP's own limits; what is within them has no others.
inline constexpr json::Limits kUnlimited{.bytes = SIZE_MAX, .values = SIZE_MAX, .depth = 64};

class JsonWriter;
class JsonReader;
template <typename Io, typename T>
void describe(Io& io, T& value);

class JsonWriter {
 public:
  template <typename T>
  void operator()(const char* key, const T& value) {
    json_[key] = to_json(value);
  }
  template <typename T>
  void required(const char* key, const T& value) {
    (*this)(key, value);
  }
  template <typename T>
  void unless_empty(const char* key, const T& value) {
    if (!value.empty()) (*this)(key, value);
  }
  Json take() { return std::move(json_); }

  template <typename T>
  static Json to_json(const T& value) {
    if constexpr (requires { value.has_value(); }) {
      return value.has_value() ? to_json(*value) : Json(nullptr);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string_view>) {
      return value;
    } else if constexpr (requires { typename T::mapped_type; }) {
      Json json = Json::object();
      for (const auto& [name, entry] : value) json[name] = to_json(entry);
      return json;
    } else if constexpr (requires { typename T::value_type; }) {
      Json json = Json::array();
      for (const auto& entry : value) json.push_back(to_json(entry));
      return json;
    } else {
      JsonWriter writer;
      describe(writer, value);
      return writer.take();
    }
  }

 private:
  Json json_ = Json::object();
};

enum class UnknownKeys { Refuse, Skip };

class JsonReader {
 public:
  JsonReader(const json::Value& json, std::string where, UnknownKeys unknown)
      : json_(json), where_(std::move(where)), unknown_(unknown) {
    if (!json_.is_object()) bad_json(where_, "must be an object");
  }

  // An absent key and null keep what `value` holds.
  template <typename T>
  void operator()(const char* key, T& value) {
    known_.push_back(key);
    const auto found = json_.find(key);
    if (found != json_.end() && !found->is_null()) read(*found, path(key), value);
  }
  template <typename T>
  void unless_empty(const char* key, T& value) {
    (*this)(key, value);
  }
  template <typename T>
  void required(const char* key, T& value) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null())
      bad_json(where_, "key \"" + std::string(key) + "\" is missing");
    (*this)(key, value);
  }

  template <typename T>
  static T document(std::string_view text, const std::string& where, UnknownKeys unknown) {
    T value{};
    JsonReader(json::Value::object(), where, unknown)
        .read(json::parse(text, where, kUnlimited), where, value);
    return value;
  }

 private:
  std::string path(const std::string& key) const { return where_ + "." + key; }

  template <typename T>
  void read(const json::Value& json, const std::string& where, T& value) const {
    if constexpr (requires { value.has_value(); }) {
      value.emplace();
      read(json, where, *value);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) bad_json(where, "must be true or false");
      value = json.template get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      // A negative number is no unsigned one to this library, and a fraction no integer.
      if (!json.is_number_unsigned() ||
          json.template get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max()))
        bad_json(where, "must be a whole number from 0 to " +
                            std::to_string(std::numeric_limits<T>::max()));
      value = json.template get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) bad_json(where, "must be a text");
      value = json.template get<std::string>();
      // Most texts end up in a C string sooner or later.
      if (value.find('\0') != std::string::npos) bad_json(where, "must not hold a zero byte");
    } else if constexpr (requires { typename T::mapped_type; }) {
      if (!json.is_object()) bad_json(where, "must be an object");
      value.clear();
      for (const auto& [name, entry] : json.items())
        read(entry, where + "." + printable(name), value[name]);
    } else if constexpr (requires { typename T::value_type; }) {
      if (!json.is_array()) bad_json(where, "must be a list");
      value.clear();
      for (const json::Value& entry : json)
        read(entry, where + "[" + std::to_string(value.size()) + "]", value.emplace_back());
    } else {
      JsonReader reader(json, where, unknown_);
      describe(reader, value);
      reader.refuse_unknown();
    }
  }

  void refuse_unknown() const {
    if (unknown_ == UnknownKeys::Skip) return;
    for (const auto& [name, entry] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const auto near = nearest(name, known_);
      bad_json(where_, "unknown key \"" + printable(name) + "\"" +
                           (near ? ", did you mean \"" + *near + "\"?" : ""));
    }
  }

  const json::Value& json_;
  std::string where_;
  UnknownKeys unknown_;
  std::vector<std::string_view> known_;
};

}
