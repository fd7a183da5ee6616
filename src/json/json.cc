#include "mvm/json/json.h"

#include <set>
#include <vector>

#include "mvm/base/error.h"
#include "mvm/base/text.h"

namespace mvm::json {

Value parse(std::string_view text, const std::string& what, const Limits& limits) {
  if (text.size() > limits.bytes)
    throw Error(Kind::Exhausted, what + " is larger than " + format_size(limits.bytes));
  size_t values = 0;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Value::parse_event_t event, const Value& parsed) {
    if (depth > limits.depth) throw Error(Kind::Invalid, what + " is nested too deep");
    if (++values > limits.values) throw Error(Kind::Exhausted, what + " holds too many values");
    if (event == Value::parse_event_t::object_start) keys.emplace_back();
    if (event == Value::parse_event_t::object_end) keys.pop_back();
    if (event != Value::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!keys.back().insert(key).second)
      throw Error(Kind::Invalid, what + ": key \"" + printable(key) + "\" is there twice");
    return true;
  };
  try {
    return Value::parse(text, check);
  } catch (const Value::parse_error& error) {
    throw Error(Kind::Invalid, what + ": not valid JSON, near byte " + std::to_string(error.byte));
  } catch (const Exception&) {
    throw Error(Kind::Invalid, what + ": not valid JSON");  // a number that is too large
  }
}

std::optional<Value> parse_object(std::string_view text, const Limits& limits) {
  try {
    Value value = parse(text, "", limits);
    if (value.is_object()) return value;
  } catch (const Error&) {
    // Whoever asks says what it should have been.
  }
  return std::nullopt;
}

template <typename Json>
static std::string dumped(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string dump(const Value& value, int indent) { return dumped(value, indent); }
std::string dump(const Ordered& value, int indent) { return dumped(value, indent); }

}
