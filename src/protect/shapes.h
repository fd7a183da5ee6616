#pragma once
// A row of the table of number forms: how it is grouped, what checks it, which words it needs.

#include <cstdint>
#include <span>
#include <string_view>

#include "number.h"

namespace mvm::protect {

struct Shape {
  // Lengths of groups with their separators: "3-2-4", "4 4 4 4"; '~' stands for one of space, dash,
  // dot that is the same throughout, ')' for a closed parenthesis, with the opening one first:
  // "(3)3-4".
  std::string_view form;
  PiiClass kind;
  std::string_view detail;
  // Checked digits, without separators. May also look at the candidate's surroundings.
  bool (*valid)(std::string_view digits);
  uint32_t needs = 0;         // one of these contexts; 0: none
  bool unless_other = false;  // not when the words say that it is something else
};

std::span<const Shape> bank_shapes();  // cards, routing numbers
std::span<const Shape> us_uk_shapes();
std::span<const Shape> european_shapes();
std::span<const Shape> world_shapes();
std::span<const Shape> phone_shapes();

}
