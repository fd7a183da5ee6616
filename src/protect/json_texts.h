#pragma once
// The strings of one JSON document, with what makes each of them the same as one of the next
// document: the names on the way to it, and the numbers by which answers tell what continues what.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mvm::protect {

struct JsonText {
  size_t offset = 0;  // of what is within the quotes, as it is written
  size_t length = 0;
  std::string key;
};

// Nothing when it is no JSON document, or a deep or rich one.
std::optional<std::vector<JsonText>> json_texts(std::string_view document);

}
