#include "mvm/api/usage.h"

#include "ai_json.h"

namespace mvm::api {

template <typename T>
static std::string text_of(const T& value) {
  return json::dump(JsonWriter::to_json(value));
}

std::string encode(const AiUsage& value) { return text_of(value); }
std::string encode(const std::vector<AiUsage>& value) { return text_of(value); }
std::string encode(const proto::AiBudgetRequest& value) { return text_of(value); }

AiUsage decode_ai_usage(std::string_view json) {
  return JsonReader::document<AiUsage>(json, "usage", UnknownKeys::Skip);
}
std::vector<AiUsage> decode_ai_usages(std::string_view json) {
  return JsonReader::document<std::vector<AiUsage>>(json, "usage", UnknownKeys::Skip);
}
proto::AiBudgetRequest decode_ai_budget(std::string_view json) {
  return JsonReader::document<proto::AiBudgetRequest>(json, "budget", UnknownKeys::Refuse);
}

}
