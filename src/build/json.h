#pragma once
// JSON out of the builder: hostile, so its size and depth are bounded before anything is made of
// it.

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::build {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;

// Throws Error{Invalid}.
inline Json parse_json(std::string_view text, const std::string& where, size_t limit) {
  if (text.size() > limit)
    throw Error(Kind::Invalid, where + " is larger than " + format_size(limit));
  const auto depth = [&](int level, Json::parse_event_t event, Json&) {
    if (level > kMaxJsonDepth &&
        (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start))
      throw Error(Kind::Invalid, where + " is nested too deeply");
    return true;
  };
  try {
    return Json::parse(text, depth);
  } catch (const Json::exception&) {
    throw Error(Kind::Invalid, where + " is not JSON");
  }
}

}
