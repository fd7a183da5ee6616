#pragma once
// JSON documents, bounded before anything is made of them. The one place that includes the JSON
// library, whose values are used as they are.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mvm::json {

// Members in the order of their names; finding one takes logarithmic time, so what comes from
// outside is read into it.
using Value = nlohmann::json;
// Members in the order in which they were put in: for what people read.
using Ordered = nlohmann::ordered_json;
// What the library's own accessors throw at a value of another type, and at a missing member.
using Exception = nlohmann::json::exception;

struct Limits {
  size_t bytes = size_t{4} << 20;
  size_t values = size_t{64} * 1024;  // and keys, and ends of arrays and objects
  int depth = 32;
};

// A whole document (RFC 8259) without repeated keys: of two values, which one holds would be the
// reader's guess. `what` names it in messages. Error{Invalid}; Error{Exhausted} where it is larger,
// or holds more, than the limits say.
Value parse(std::string_view text, const std::string& what, const Limits& limits = {});

// The same, and nothing where it would throw, or is no object.
std::optional<Value> parse_object(std::string_view text, const Limits& limits = {});

// Text from outside need not be UTF-8, JSON must be: what is not becomes U+FFFD. In one line, or
// with `indent` spaces a level.
std::string dump(const Value& value, int indent = -1);
std::string dump(const Ordered& value, int indent = -1);

}
